// The page: which view is shown, for which namespace, with which key; and live updates.

import { call, el, empty, key, memory, setCurrency } from "./lib.js";
import { decision, decisions } from "./decisions.js";
import * as inbox from "./inbox.js";
import * as overview from "./overview.js";
import { cost, relation, sources, topics, trust } from "./records.js";
import * as report from "./report.js";

const VIEWS = { overview, inbox, decisions, trust, topics, relation, cost, sources, report, decision };
const LISTED = Object.keys(VIEWS).filter((name) => name !== "decision");
const SECONDS = 2;
const ANYWAY = 5; // every so many looks the view is loaded even if the table of trust is as before
const [main, live, message, select, pause] = ["main", "live", "message", "namespace", "pause"].map((id) => document.getElementById(id));
const dialog = document.getElementById("key-dialog");
let place = { namespace: "", view: "overview", argument: "" };
let roles = {}; // of the key, by namespace
let shown = ""; // what the view shows, as JSON
let seen = ""; // the table of trust at the last look: cheap to ask for, and it changes with every event and label
let looks = 0;
let turn = 0; // answers to older questions are thrown away
let pending = false; // whether something that was asked for is on its way: no live update takes its place

function say(text) {
  message.textContent = text;
}

function askForKey(why) {
  document.getElementById("key-why").textContent = why;
  document.getElementById("key-value").value = key.get();
  if (!dialog.open) dialog.showModal();
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return ""; // an address that somebody cut short
  }
}

function placeFromAddress(names) {
  const [namespace, view, argument = ""] = location.hash.replace(/^#\//, "").split("/").map(decoded);
  return { namespace: names.includes(namespace) ? namespace : names[0], view: Object.hasOwn(VIEWS, view) ? view : "overview", argument };
}

function showPlace(names) {
  select.replaceChildren(...names.map((name) => el("option", { value: name, selected: name === place.namespace }, name)));
  const links = LISTED.map((name) => el("li", {}, el("a", { href: memory(place.namespace).link(name),
    "aria-current": name === place.view || (name === "decisions" && place.view === "decision") ? "page" : null }, VIEWS[name].title)));
  document.getElementById("views").replaceChildren(...links);
  document.querySelector("#views [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  document.title = `${VIEWS[place.view].title} · ${place.namespace} · Σ-Mem`;
}

function replaceMain(nodes) {
  const focused = main.contains(document.activeElement) ? document.activeElement.id : "";
  const open = [...main.querySelectorAll("details[open]")].map((node) => node.id);
  main.replaceChildren(...nodes.flat(Infinity).filter((node) => node));
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  if (focused) document.getElementById(focused)?.focus();
}

// Whether somebody is about to fill something in, which a live update must not take away.
function inUse() {
  const changed = (control) => (control.matches("select") ? control.selectedIndex !== Math.max(0, [...control.options].findIndex((each) => each.defaultSelected))
    : control.value !== control.defaultValue || control.checked !== control.defaultChecked);
  return main.querySelector("form:focus, form:focus-within") !== null || [...main.querySelectorAll("input, select")].some(changed);
}

async function refresh({ force = false } = {}) {
  const view = VIEWS[place.view];
  const api = memory(place.namespace, roles[place.namespace]);
  if (!force && (pending || inUse())) return;
  const mine = (turn += 1);
  pending = force;
  let data;
  try {
    data = await view.load(api, place.argument);
  } finally {
    if (mine === turn) pending = false;
  }
  const text = JSON.stringify(data);
  if (mine !== turn || (!force && (text === shown || inUse()))) return;
  shown = text;
  replaceMain(view.render(data, api, () => attempt(() => refresh({ force: true })), say));
  main.dataset.shown = place.view;
}

async function open() {
  const found = await call("/v1/memory");
  const names = found.namespaces;
  roles = found.roles;
  setCurrency(found.currency);
  if (!names.length) {
    live.textContent = "no memory";
    main.replaceChildren(el("h1", {}, "No memory yet"), empty("A memory is made when a service with [[upstreams]] in sigma-mem.toml starts, or by your program: ",
      `sigma_mem.Client("${location.origin}").namespace("default", ["peer-1", "peer-2"]). This page finds it by itself.`));
    return;
  }
  const before = place;
  place = placeFromAddress(names);
  const moved = before.view !== place.view || before.namespace !== place.namespace || before.argument !== place.argument;
  showPlace(names);
  if (moved) VIEWS[place.view].begin?.();
  say("");
  delete main.dataset.shown;
  await refresh({ force: true });
  live.textContent = "live";
  if (moved && before.namespace) main.querySelector("h1")?.focus();
}

async function attempt(action) {
  try {
    await action();
    if (!paused()) live.textContent = place.namespace ? "live" : live.textContent;
  } catch (error) {
    live.textContent = "not live";
    if (error.status === 401) askForKey("The service asks for a key. It is kept in this tab only, until you close it.");
    else if (error.status === undefined) throw error;
    else say(error.message);
  }
}

async function look() {
  looks += 1;
  if (place.view !== "overview") {
    const table = JSON.stringify(await memory(place.namespace).post("trust", {}));
    if (table === seen && looks % ANYWAY) return;
    seen = table;
  } else if (looks % ANYWAY) return; // it reads the end of the ledger
  await refresh();
}

const paused = () => pause.getAttribute("aria-pressed") === "true";

async function tick() {
  if (!paused() && !document.hidden && !dialog.open) await attempt(place.namespace ? look : open);
  setTimeout(tick, 1000 * SECONDS);
}

select.addEventListener("change", () => { location.hash = memory(select.value).link(place.view === "decision" ? "decisions" : place.view); });
pause.addEventListener("click", () => {
  pause.setAttribute("aria-pressed", String(!paused()));
  live.textContent = paused() ? "paused" : "live";
});
document.getElementById("skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
document.getElementById("key").addEventListener("click", () => askForKey("The key is kept in this tab only, until you close it."));
document.getElementById("key-cancel").addEventListener("click", () => dialog.close());
document.getElementById("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key.set(document.getElementById("key-value").value.trim());
  dialog.close();
  attempt(open);
});
window.addEventListener("hashchange", () => attempt(open));
attempt(open).finally(() => setTimeout(tick, 1000 * SECONDS));
