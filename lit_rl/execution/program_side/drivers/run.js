// Runs the program in descriptor 4: alone, or with tests. It shares a process with the program: what it
// keeps from the program it keeps in its own variables, taken before the program's first line.
(() => {  // the names of a script at the top are the program's, too
const fs = require("fs"), vm = require("vm"), Module = require("module"), assert = require("assert");
const [file, mode] = process.argv.slice(1), source = fs.readFileSync(4, "utf8");
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
  runTests(fs.readFileSync(0), fs.writeSync, JSON, vm.runInThisContext);
} else if (isModule()) {
  import("data:text/javascript;base64," + Buffer.from(source).toString("base64"));
} else {
  main._compile(source, main.filename);
}

function isModule() {
  return /^\s*(?:import\s+[\w{*"']|export\s)/m.test(source);
}

function runTests(input, writeSync, {parse}, run) {
  // The pass is kept outside of the heap, which a program can have written to a file.
  const pass = Buffer.allocUnsafeSlow(64), [program, test] = parse(source);
  input.copy(pass);
  input.fill(0);
  let failed = false, ready = false;
  const names = [assert, assert.strict, console, JSON, Math, Object, Array, Number, String, Reflect, Symbol, Promise];
  const kinds = [Array, String, Number, Boolean, RegExp, Map, Set, Date, Symbol, BigInt, Promise];
  for (const owner of [...names, ...kinds.map((kind) => kind.prototype)]) lock(owner);
  for (const kind of [Object, Function, Error]) lock(kind.prototype, true);
  for (const name of [...[...names, ...kinds].map(({name}) => name).filter(Boolean), "JSON", "Math", "Reflect",
    "Function", "Error", "isNaN", "isFinite", "parseInt", "parseFloat"])
    if (Object.hasOwn(globalThis, name)) Object.defineProperty(globalThis, name, {writable: false, configurable: false});
  const ours = {...console, assert: (holds, ...words) => { if (!holds) { failed = true; assert.fail(words.join(" ")); } }};
  const once = process.once.bind(process), require = Module.createRequire("/");
  once("beforeExit", () => { if (ready && !failed) writeSync(3, pass); });
  run(program, {filename: file});
  const tests = run("(function (console, assert, require) {" + test + "\n})", {filename: "tests.js"});
  tests.call(undefined, ours, assert, (name) => name === "assert" ? assert : require(name));
  ready = true;
}

function lock(owner, isBase = false) {
  // Nothing that tests use can be replaced. What programs assign to objects of their own hides nothing of ours, though:
  // a property of a base that cannot be written to would forbid that, so it becomes a pair of functions.
  for (const name of Reflect.ownKeys(owner)) {
    const found = Reflect.getOwnPropertyDescriptor(owner, name);
    if (!found.configurable || typeof found.value !== "function") continue;
    const set = function (value) {
      if (this !== owner) Reflect.defineProperty(this, name, {value, writable: true, enumerable: true, configurable: true});
    };
    Reflect.defineProperty(owner, name, isBase
      ? {get: () => found.value, set, enumerable: found.enumerable, configurable: false}
      : {...found, writable: false, configurable: false});
  }
}
})();
