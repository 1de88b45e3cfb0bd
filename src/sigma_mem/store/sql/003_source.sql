-- Who said what: feedback by its source, so that revoking one costs what it wrote. A damaged body has none.
CREATE INDEX record_by_source ON record (
    namespace, CASE WHEN json_valid(body) THEN json_extract(body, '$.source') END
) WHERE kind = 'feedback';
