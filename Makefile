# Two commands matter: `make book` builds the book, `make test` tests it. `make help` lists the rest.
# Another Python: make book PYTHON=python3.12

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
HTML   := _build/html

# Set up once, and again when the requirements change.
READY      := $(VENV)/.ready
READY_TEST := $(VENV)/.ready-test
READY_BENCHMARK := $(VENV)/.ready-benchmark
LIGHTHOUSE := tests/lighthouse
READY_LIGHTHOUSE := $(LIGHTHOUSE)/node_modules/.ready
# Leaves out what has passed and rests on nothing that has changed since; `make test REMEMBER=` leaves out nothing.
REMEMBER := -p tests.remembered
# Newer than everything that changes how every page is drawn.
FRESH_PAGE := _build/.fresh-page

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help book site serve live test ready-to-test benchmark notebooks lab browser node clean
.DEFAULT_GOAL := help

help:  ## list these commands
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

book: site  ## build the book: environment, chapters, pages
	@"$(BIN)"/python -m tools.notebooks --built _build/jupyter_execute/chapters || { \
	  echo; echo "The book is built, with today's outputs ($(HTML)/index.html). The notebooks store others."; \
	  echo "'make notebooks' stores today's; for one chapter: $(BIN)/python -m tools.notebooks chapters/NAME.ipynb"; exit 1; }
	@echo
	@echo "The book is ready: open $(HTML)/index.html, or run 'make serve'."

# The build alone; the tests call it with the Python that runs them (READY= BIN=...).
# A failed build leaves no page store behind: warnings are given once, and the next build must give them again.
site: $(READY) $(FRESH_PAGE)
	@echo "Building the book (a minute or two when every chapter has to run) ..."
	@"$(BIN)"/jupyter-book build . -W --keep-going -n -q >_build/log || { \
	  rm -rf _build/.doctrees; \
	  echo; echo "The book was not built. The messages above name the file and the cell or line."; exit 1; }

# Sphinx does not look at its local extensions, which import some modules, nor at style sheets when no page has
# changed. Which chapters have to run again is the matter of _ext/book_fresh.py.
$(FRESH_PAGE): $(READY) $(wildcard _ext/*.py _extra/*/* _static/* _templates/*) lib/formulas.py \
  tools/repository.py tools/requirements.py _config.yml _toc.yml
	@rm -rf _build/.doctrees $(HTML) && mkdir -p _build && touch $@

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { \
	  echo "This needs Python 3.10 or newer, and '$(PYTHON)' is not. Name another: make book PYTHON=python3.12"; exit 1; }
	@! test -x $(BIN)/python || test "$$($(BIN)/python -V)" = "$$($(PYTHON) -V)" || { \
	  echo "$(VENV) holds $$($(BIN)/python -V), not $$($(PYTHON) -V): remove it, or name another with VENV=."; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV) || { \
	  echo "No virtual environment could be made. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "Installing what the book needs into $(VENV) (minutes, the first time) ..."
	@"$(BIN)"/pip install --quiet -r requirements.txt || { \
	  echo "The installation failed; the message above says at which package. It can be repeated."; exit 1; }
	@touch $@

$(READY_TEST): $(READY) requirements-dev.txt
	@echo "Installing what the tests need ..."
	@"$(BIN)"/pip install --quiet -r requirements-dev.txt || { \
	  echo "The test tools could not be installed; the message above says which."; exit 1; }
	@touch $@

$(READY_LIGHTHOUSE): $(LIGHTHOUSE)/package-lock.json | node
	@echo "Installing Lighthouse, which measures the pages ..."
	@cd $(LIGHTHOUSE) && npm ci --loglevel=error >/dev/null || { \
	  echo "Lighthouse could not be installed; the message above says why."; exit 1; }
	@touch $@

$(READY_BENCHMARK): $(READY_TEST) requirements-benchmark.txt
	@echo "Installing what the benchmark needs ..."
	@"$(BIN)"/pip install --quiet -r requirements-benchmark.txt || { \
	  echo "The libraries to compare with could not be installed; the message above says which."; exit 1; }
	@touch $@

serve: site  ## build the book and serve it on this machine
	@"$(BIN)"/python -m tools.serve $(HTML)

live: site  ## serve the book with a Jupyter server beside it: its pages run their cells
	@"$(BIN)"/python -m tools.live $(HTML)

test:  ## run every test; sets up what it needs, a browser too
	@$(MAKE) --no-print-directory $(READY)
	@$(MAKE) --no-print-directory -j2 ready-to-test  # packages, and meanwhile what is not of Python
	@OMP_NUM_THREADS=1 "$(BIN)"/python -m pytest $(REMEMBER)

ready-to-test: $(READY_TEST) browser $(READY_LIGHTHOUSE)

benchmark: $(READY_BENCHMARK)  ## measure the rotation beside other libraries' and store the result
	@"$(BIN)"/python -m tools.benchmark_rotation
	@"$(BIN)"/python -m tools.notebooks chapters/12_precision.ipynb

# The names are those of tests/book.py. The first is Chromium without windows, and much faster.
BROWSERS := chromium-headless-shell chrome-headless-shell chromium chromium-browser google-chrome
browser:
	@for name in $(BROWSERS); do command -v $$name >/dev/null && exit; done; { \
	  echo "Installing Chromium, in which the tests read the book ..."; \
	  SUDO=; [ "$$(id -u)" = 0 ] || SUDO=sudo; \
	  $$SUDO apt-get update -qq && { $$SUDO apt-get install -qq -y chromium-headless-shell >/dev/null 2>&1 || \
	  $$SUDO apt-get install -qq -y chromium >/dev/null; }; } || { \
	  echo "The tests read the book in a browser. Install Chromium or Google Chrome and run this again."; exit 1; }

# Lighthouse runs in Node.js: 18.16 or newer.
NODE_IS_THERE := node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 18 || (a == 18 && b >= 16) ? 0 : 1)' \
  2>/dev/null && command -v npm >/dev/null
node: | browser  # two apt-get at once would be one too many
	@$(NODE_IS_THERE) && exit; { \
	  echo "Installing Node.js, in which Lighthouse measures the pages ..."; \
	  SUDO=; [ "$$(id -u)" = 0 ] || SUDO=sudo; \
	  $$SUDO apt-get update -qq && $$SUDO apt-get install -qq -y --no-install-recommends nodejs npm >/dev/null && \
	  $(NODE_IS_THERE); } || { \
	  echo "Lighthouse, with which the tests measure the pages, needs Node.js 18.16 or newer, and npm."; \
	  echo "Install them (https://nodejs.org) and run this again."; exit 1; }

notebooks: $(READY)  ## run the chapters and store their outputs in them
	@"$(BIN)"/python -m tools.notebooks

lab: $(READY)  ## open the chapters in JupyterLab
	@"$(BIN)"/jupyter lab --notebook-dir=chapters $(if $(filter 0,$(shell id -u)),--allow-root)

clean:  ## remove what was built (the environment stays)
	@rm -rf _build
