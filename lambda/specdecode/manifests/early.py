"""Shell source that looks at a Trainium node before a byte of weights is moved: its devices, their driver, free disk.

It runs before the bundle is there. A device that a container may not open shows so only when it is opened, since root
passes every test of permissions. A module's version is in /sys/module/<name>/version, where Neuron's runtime reads the
driver's; devices are /dev/neuron<n> (ADR 65).
"""

from specdecode.exit_codes import Exit
from specdecode.experiment.engine import Engine

DEVICES, DRIVER_VERSION = "/dev/neuron", "/sys/module/neuron/version"
_DEVICES = f"""\
seen=0
for device in {DEVICES}[0-9]*; do
  [ -e "$device" ] || continue
  seen=$((seen + 1))
  if ! (: <> "$device") 2> /dev/null; then
    echo "specdecode: error {{code}}: user $(id -u) cannot open $device: the node image keeps it for others" >&2
    exit {{code}}
  fi
done
if [ "$seen" -lt {{devices}} ]; then
  echo "specdecode: error {{code}}: {{devices}} Neuron devices were claimed and $seen are here" >&2
  exit {{code}}
fi
"""
_DRIVER = f"""\
driver=$(cat {DRIVER_VERSION} 2> /dev/null || true)
case "$driver" in
  2.[0-9]*)
    minor=${{{{driver#2.}}}}
    minor=${{{{minor%%[!0-9]*}}}}
    if ! {{{{ {{within}}; }}}}; then
      echo "specdecode: error {{code}}: the node has driver $driver, Neuron runtime {{runtime}} takes {{words}}" >&2
      exit {{code}}
    fi ;;
  *) echo "specdecode: the driver says no version of 2.x: not compared with Neuron runtime {{runtime}}" >&2 ;;
esac
"""
_DISK = """\
free=$(df -Pk . | tail -n 1 | tr -s ' ' | cut -d ' ' -f 4)
if [ "$free" -lt {kib} ]; then
  echo "specdecode: error {code}: $((free / 1048576)) GiB of the node's disk are free, and {gib} GiB are needed" >&2
  exit {code}
fi
"""


def device_check(engine: Engine, devices: int) -> str:
    """Ends with Exit.NO_DEVICE and one line unless `devices` Neuron devices can be opened and their driver suits.

    Empty if the engine opens none. A driver without a version passes: the runtime judges it then.
    """
    if not engine.on_neuron:
        return ""
    code = Exit.NO_DEVICE.value
    source = _DEVICES.format(devices=devices, code=code)
    if engine.runtime.driver_minors:
        oldest, first_refused = engine.runtime.driver_minors
        within, words = f'[ "$minor" -ge {oldest} ]', f"2.{oldest} and later"
        if first_refused is not None:
            within, words = f'{within} && [ "$minor" -lt {first_refused} ]', f"2.{oldest} to below 2.{first_refused}"
        source += _DRIVER.format(within=within, words=words, runtime=engine.runtime.version, code=code)
    return source


def disk_check(engine: Engine, gib: int) -> str:
    """Ends with Exit.NO_SPACE and one line unless `gib` are free where the script runs. Empty without Neuron: only a
    Trainium node's disks are sized for what is put there.
    """
    return _DISK.format(kib=gib * 2**20, gib=gib, code=Exit.NO_SPACE.value) if engine.on_neuron else ""
