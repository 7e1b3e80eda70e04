# Whether Node.js 20 or newer is here, with npm; else what to install.
command -v node >/dev/null && command -v npm >/dev/null &&
  node -e 'process.exit(+(process.versions.node.split(".")[0] < 20))' && exit 0
{
  echo 'Node.js with npm is missing, or older than 20: the AWS CDK runs on it. Use 22 or 24.'
  echo 'Install it from https://nodejs.org or with your package manager.'
} >&2
exit 3
