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

rm -rf node_modules
