# The path to lambda/ in .venv, relative: Python 3.11 reads .pth files in the locale's encoding, and under LC_ALL=C a checkout
# whose path has an ä would end it at once.
for file in .venv/lib/python3.11/site-packages/__editable__.specdecode-*.pth; do
  echo ../../../../lambda > "$file"
done
