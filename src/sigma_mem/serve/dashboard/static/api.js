// The memory's API, with the key of this tab.

const KEY = "sigma-mem-key";

export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function call(path, options = {}) {
  const headers = { accept: "application/json" };
  if (key.get()) headers.authorization = `Bearer ${key.get()}`;
  if (options.body) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
  } catch {
    throw new Refused(0, "the service does not answer");
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, body.error?.message ?? `status ${response.status}`);
  return body;
}

export const namespaces = async () => (await call("/v1/memory")).namespaces;

// Calls on one namespace: `get("explain", {decision: id})`, `post("feedback", body)`.
export function memory(namespace) {
  const base = `/v1/memory/${encodeURIComponent(namespace)}`;
  return {
    namespace,
    get(name, query = {}) {
      const given = Object.entries(query).flatMap(([key, value]) => [value].flat().map((each) => [key, each]))
        .filter(([, value]) => value !== "" && value !== null && value !== undefined);
      const search = new URLSearchParams(given).toString();
      return call(`${base}${name ? `/${name}` : ""}${search ? `?${search}` : ""}`);
    },
    post: (name, body) => call(`${base}/${name}`, { method: "POST", body: JSON.stringify(body) }),
    link: (...parts) => `#/${[namespace, ...parts].map(encodeURIComponent).join("/")}`,
  };
}
