# Shortcuts; `python3 run.py …` needs none of them. Those that use a tool expect `python3 run.py test` to have run once.

bin := justfile_directory() / ".venv/bin"

# list what is here
default:
    @just --list

# every check, as CI runs it
test *args:
    python3 run.py test {{args}}

# quick feedback while writing: lint and types
lint:
    {{bin}}/ruff check
    {{bin}}/pyright

# sort imports and mend what can be mended safely
fix:
    {{bin}}/ruff check --fix

# write the generated documents
docs:
    {{bin}}/python tools/requirements.py
    {{bin}}/python tools/formulas.py
    {{bin}}/python tools/commands.py
    {{bin}}/python tools/pictures.py
    {{bin}}/python tools/outputs.py
    {{bin}}/python tools/contract.py

# take the documents' pictures of the page again, after its look has changed
screens:
    {{bin}}/python tools/screens.py

# build the page where its sources changed
page:
    {{bin}}/python hatch_build.py

# check and test the page's own code
page-test:
    cd page && npm run check && npm test

# renew the pins within the ranges of pyproject.toml (needs uv)
lock:
    uv pip compile pyproject.toml --group build --universal --generate-hashes --upgrade --no-header -q -o requirements.lock
    uv pip compile pyproject.toml --group build --extra dev -c requirements.lock --universal --generate-hashes --upgrade --no-header -q -o requirements-dev.lock
