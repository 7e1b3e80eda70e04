# Whether the settings that are given here, else those that are kept, say who is told of a node that stays, or that nobody need be.
facts=$(.venv/bin/python -m constructs_lib.settings.facts ${1:+--alone} "$@") || exit 2
case "$facts" in *'"alert_email":true'* | *'"accept_no_alerts":true'*) exit 0 ;; esac
{
  echo 'Nobody would be told of a node that stays, at $36 an hour, or of a run that is stuck. Say who is told:'
  echo '  make deploy ALERT_EMAIL=you@example.com'
  echo 'or that nobody need be told:'
  echo '  make deploy ACCEPT_NO_ALERTS=true'
} >&2
exit 2
