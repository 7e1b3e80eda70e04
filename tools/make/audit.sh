# Secrets in the checkout, and known vulnerabilities of all that is locked. Arguments: the locks, as pip-audit takes them.
status=0
git ls-files -z | xargs -0 .tools/bin/detect-secrets-hook --no-verify \
  --exclude-files 'package-lock\.json|\.safetensors$' \
  --disable-plugin KeywordDetector --disable-plugin Base64HighEntropyString --disable-plugin HexHighEntropyString || status=1
.tools/bin/pip-audit --strict --progress-spinner off --require-hashes --disable-pip "$@" || status=1
npm audit || status=1
test $status = 0 && exit 0
{
  echo 'Look above: something was found, or could not be looked up. Advisories come from the registries of pip and npm;'
  echo 'a mirror that has none answers that a package was not found or that a method is not allowed.'
} >&2
exit 1
