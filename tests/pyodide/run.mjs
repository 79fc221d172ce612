// node run.mjs SRC WHEEL: start Pyodide, unpack the wheel, mount SRC, run inside.py on asks.json, print its JSON.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { loadPyodide } from "pyodide";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const [source, wheel] = process.argv.slice(2);

const python = await loadPyodide();
python.unpackArchive(new Uint8Array(readFileSync(wheel)), "whl");
python.mountNodeFS("/src", source);
python.runPython("import sys; sys.path.insert(0, '/src'); sys.dont_write_bytecode = True");
python.runPython(readFileSync(here("inside.py"), "utf8"), { filename: "inside.py" });
python.globals.set("asks_text", readFileSync(here("asks.json"), "utf8"));
console.log(python.runPython("main(json.loads(asks_text))"));
