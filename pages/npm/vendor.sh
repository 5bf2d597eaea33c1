#!/bin/sh
# Copies what the pages take from npm into assets/vendor, each with its licence
# and its version: package-lock.json says what exactly that is.
set -eu
cd "$(dirname "$0")"
npm ci --silent --ignore-scripts --no-audit --no-fund
vendor=../assets/vendor

# The languages that a block of code is highlighted in. A page loads those that
# it shows, one by one.
languages="bash c cpp csharp css dart diff dockerfile elixir go graphql haskell ini java javascript json kotlin lua
makefile markdown nginx perl php powershell protobuf python r ruby rust scala sql swift typescript xml yaml"

from=node_modules/@highlightjs/cdn-assets
to=$vendor/highlight
rm -rf "$to"
mkdir -p "$to/languages"
cp "$from/LICENSE" "$to/LICENSE"
cp "$from/es/core.min.js" "$to/core.js"
for language in $languages; do
	cp "$from/es/languages/$language.min.js" "$to/languages/$language.js"
done
node -p "'highlight.js ' + require('./$from/package.json').version + ', https://highlightjs.org'" >"$to/VERSION"

from=node_modules/uplot
to=$vendor/uplot
rm -rf "$to"
mkdir -p "$to"
cp "$from/LICENSE" "$to/LICENSE"
cp "$from/dist/uPlot.iife.min.js" "$to/uplot.js" # the module that it comes as is three times the size
echo "export default uPlot;" >>"$to/uplot.js"
cp "$from/dist/uPlot.min.css" "$to/uplot.css"
node -p "'uPlot ' + require('./$from/package.json').version + ', https://github.com/leeoniya/uPlot'" >"$to/VERSION"

# The fonts in WOFF2 only, which every browser reads that these pages work in.
from=node_modules/katex
to=$vendor/katex
rm -rf "$to"
mkdir -p "$to/fonts"
cp "$from/LICENSE" "$to/LICENSE"
cp "$from/dist/katex.min.js" "$to/katex.js" # the module that it comes as is twice the size
echo "export default self.katex;" >>"$to/katex.js"
sed 's/,url(fonts[^)]*\.woff) format("woff"),url(fonts[^)]*\.ttf) format("truetype")//g' "$from/dist/katex-swap.min.css" >"$to/katex.css"
cp "$from"/dist/fonts/*.woff2 "$to/fonts"
node -p "'KaTeX ' + require('./$from/package.json').version + ', https://katex.org'" >"$to/VERSION"

rm -rf node_modules
