-- From here on bodies may be packed by their shapes (`sigma_mem.store.shapes`), which earlier versions cannot
-- read: they refuse a file of this version. Lines that are there stay as they are.
SELECT 'nothing else changes';
