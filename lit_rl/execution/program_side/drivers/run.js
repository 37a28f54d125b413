// Runs the program in descriptor 4: alone, or with tests. It shares a process with the program: what it
// keeps from the program it keeps in its own variables, taken before the program's first line.
(() => {  // the names of a script at the top are the program's, too
const fs = require("fs"), vm = require("vm"), Module = require("module");
const [file, mode] = process.argv.slice(1), source = fs.readFileSync(4, "utf8");
fs.closeSync(4);  // the tests are in it, too
const main = new Module(".");
main.filename = "/" + file;  // absolute, so that source maps are looked for
main.paths = [];
process.mainModule = main;
process.argv = [process.argv[0], file];
if (mode === "parse") {
  if (!isModule()) new vm.Script(Module.wrap(source));
} else if (mode !== "stdio") {
  // Top-level names of one script are seen by the next.
  Object.assign(globalThis, {require: main.require.bind(main), module: main, exports: main.exports});
  runTests(fs, JSON.parse(source), vm.runInThisContext);
} else if (isModule()) {
  import("data:text/javascript," + encodeURIComponent(`${source}\n//# sourceURL=`) + main.filename);  // which errors name
} else {
  main._compile(source, main.filename);
}

function isModule() {
  return /^\s*(?:import\s+[\w{*"']|export\s)/m.test(source);
}

function runTests({readSync, writeSync}, [program, test], run) {
  // The pass is kept outside of the heap, which a program can have written to a file; no copy of it is ever made.
  const pass = Buffer.allocUnsafeSlow(64);
  readSync(0, pass);
  let failed = false, ready = false;
  const assert = require("assert"), util = require("util");
  const names = [assert, assert.strict, util, console, JSON, Math, Object, Array, Number, String, Reflect, Symbol, Promise];
  const kinds = [Array, String, Number, Boolean, RegExp, Map, Set, Date, Symbol, BigInt, Promise];
  const iterated = [[].keys(), ""[Symbol.iterator](), "".matchAll(/x/g), new Map().keys(), new Set().keys(), (function* () {})()];
  // What shows a program the variables and objects of others, in this thread or from another one.
  for (const [owner, name] of [[require("inspector"), "Session"], [require("v8"), "queryObjects"],
    [require("worker_threads"), "Worker"], [process, "binding"], [process, "_linkedBinding"], [process, "dlopen"],
    [process.getBuiltinModule?.("node:sqlite")?.DatabaseSync.prototype ?? {}, "loadExtension"]])
    Object.defineProperty(owner, name, {value: undefined, writable: false, configurable: false});
  for (const {prototype} of [Object, Function, ...kinds])
    if (!Object.hasOwn(prototype, "toJSON")) keep(prototype, "toJSON", {});
  for (const owner of [...names, ...kinds.map((kind) => kind.prototype)]) lock(owner);
  for (const one of iterated) for (let o = one; (o = Object.getPrototypeOf(o)) !== Object.prototype;) lock(o, true);
  for (const kind of [Object, Function, Error]) lock(kind.prototype, true);
  for (const name of [...[...names, ...kinds].map(({name}) => name).filter(Boolean), "JSON", "Math", "Reflect",
    "Function", "Error", "isNaN", "isFinite", "parseInt", "parseFloat"])
    if (Object.hasOwn(globalThis, name)) Object.defineProperty(globalThis, name, {writable: false, configurable: false});
  const ours = {...console, assert: (holds, ...words) => { if (!holds) { failed = true; assert.fail(words.join(" ")); } }};
  const once = process.once.bind(process), others = Module.createRequire("/");
  const modules = {__proto__: null, assert, util, "assert/strict": assert.strict};
  once("beforeExit", () => { if (ready && !failed) writeSync(3, pass); });
  const tests = run("(function (console, assert, require) {{" + test + "\n}})", {filename: "tests.js"});
  run(program, {filename: file});
  tests(ours, assert, (name) => modules[name.replace(/^node:/, "")] ?? others(name));
  ready = true;
}

function lock(owner, isBase = false) {
  // Nothing that tests use can be replaced. What programs assign to objects of their own hides nothing of ours, though:
  // a property of a base that cannot be written to would forbid that, so it becomes a pair of functions.
  for (const name of Reflect.ownKeys(owner)) {
    const found = Reflect.getOwnPropertyDescriptor(owner, name);
    if (!found.configurable) continue;
    if (found.get) Reflect.defineProperty(owner, name, {...found, configurable: false});
    else if (typeof found.value !== "function") continue;
    else if (isBase) keep(owner, name, found);
    else Reflect.defineProperty(owner, name, {...found, writable: false, configurable: false});
  }
}

function keep(owner, name, {value, enumerable = false}) {
  const set = function (other) {
    if (this !== owner)
      Reflect.defineProperty(this, name, {value: other, writable: true, enumerable: true, configurable: true});
  };
  Reflect.defineProperty(owner, name, {get: () => value, set, enumerable, configurable: false});
}
})();
