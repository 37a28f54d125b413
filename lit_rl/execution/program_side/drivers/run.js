// Runs the program in descriptor 4; tests may be a part of the program.
(() => {  // the program would see names at the top of this script
const fs = require("fs"), vm = require("vm"), Module = require("module");
const [file, mode] = process.argv.slice(1), source = fs.readFileSync(4, "utf8");
fs.closeSync(4);
const main = new Module("."), isModule = isModuleSource();
main.filename = "/" + file;
main.paths = [];
process.mainModule = main;
process.argv = [process.argv[0], file];
if (mode === "parse") {
  if (!isModule) new vm.Script(Module.wrap(source));
} else {
  if (mode === "tests") prepareTests();
  if (isModule) {
    const meta = `({url: "file:///${file}", filename: "/${file}", dirname: "/"})`;  // a text has no address of its own
    const named = `${source.replace(/\bimport\.meta\b/g, meta)}\n//# sourceURL=`;
    import("data:text/javascript," + encodeURIComponent(named) + main.filename);  // errors name this file
  } else {
    main._compile(source, main.filename);
  }
}

// Decides as Node itself does: a source that compiles as a script is a script.
function isModuleSource() {
  if (!/\b(?:import|export|await)\b/.test(source)) return false;
  try {
    new vm.Script(Module.wrap(source));
    return false;
  } catch ({message}) {
    return /import statement|'import\.meta'|token 'export'|top level bodies of modules/.test(message);
  }
}

// Tests use these names without importing them. If no assert failed, the pass is sent when nothing is left to do.
function prepareTests() {
  const assert = require("assert");
  let failed = false;
  Object.assign(globalThis, {assert, require: Module.createRequire(main.filename), module: main, exports: main.exports});
  console.assert = (holds, ...words) => {
    failed ||= !holds;
    assert(holds, words.join(" ") || "Assertion failed");
  };
  process.once("beforeExit", () => { if (!failed) fs.writeSync(3, fs.readFileSync(0)); });
}
})();
