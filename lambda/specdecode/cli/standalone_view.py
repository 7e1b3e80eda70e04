"""The comments of `manifests --complete`: what the user fills in, and, after COMMAND, shell source of the run."""

from collections.abc import Iterator, Mapping

from specdecode import s3_keys
from specdecode.cli.experiments_view import objects_text
from specdecode.escape import line
from specdecode.kubernetes.pods import REFUSED_MINUTES
from specdecode.kubernetes.resources import name_of
from specdecode.manifests import KubeObject, RenderContext
from specdecode.manifests.addresses import ENTRY
from specdecode.manifests.pods import word
from specdecode.manifests.standalone import (
    ACCOUNT,
    AWS_SECRET,
    EXPERIMENT,
    HUB_ENTRY,
    HUB_SECRET,
    KEY_SECRET,
    Standalone,
    UserStep,
)
from specdecode.names import COMPONENT_LABEL, NAMESPACE, RUN_LABEL, WAVE_LABEL
from specdecode.planning import Plan

COMMAND = "# $ "
KUBECTL = f"kubectl -n {NAMESPACE}"
FUNCTIONS = """\
look() {
  pods=$(%k get pods -l "$2" -o 'jsonpath={.items[*].status.phase}')
  why=$(%k get events --field-selector reason=FailedCreate -o \
    'jsonpath={range .items[*]}{.involvedObject.name} {.message}{"\\n"}{end}' | grep "^$1[- ]" | tail -n 1)
  said="$1: ${pods:-no pod: $why}"
  [ "$said" = "$last" ] || echo "$(date +%T) $said"
  last=$said
  [ -z "$pods" ] && [ -n "$why" ] || idle=$SECONDS
  [ $((SECONDS - idle)) -lt %s ] || { echo "$1: its pods are refused, and a person must mend that"; return 1; }
}
step() { for job; do
  %k patch job "$job" -p '{"spec":{"suspend":false}}'
  idle=$SECONDS
  until %k get job "$job" -o 'jsonpath={.status.conditions[?(@.status=="True")].type}' | grep -qE 'Complete|Fail'
  do look "$job" "job-name=$job" || return 1; sleep 5; done
  %k wait job "$job" --for=condition=complete --timeout=1s ||
    { %k logs job/"$job" --all-containers --tail=20; return 1; }
done; }
serves() {
  began=$SECONDS idle=$SECONDS
  until %k rollout status deployment "$1" --timeout=5s >/dev/null 2>&1
  do look "$1" "$2" || return 1
    [ $((SECONDS - began)) -lt "$3" ] || { %k logs deployment/"$1" --tail=20; return 1; }
  done
}""".replace("%k", KUBECTL).replace("%s", str(60 * REFUSED_MINUTES))
"""Shell functions. `look` shows what changes, and fails if no pod can be made. `step` runs Jobs one after the other; if
one fails it prints the log and fails. `serves` waits for a server.
"""


def text(found: Standalone, plan: Plan, ctx: RenderContext) -> str:
    """The whole stream: YAML for `kubectl apply -f -`. Comments at the top say all that the user must do."""
    told = [*_head(plan, ctx), "", *(f"$ {part}" for part in FUNCTIONS.splitlines())]
    for number, part in enumerate(found.steps, start=1):
        told += [f"{number}. {line(part.title)}", *_commands(part)]
        for key in found.own_sets if number == 1 else ():
            own = f"{s3_keys.run_prefix(ctx.run_id)}{key}"
            told.append(f"$ aws s3 cp {word(f's3://{ctx.bucket}/{key}')} {word(f's3://{ctx.bucket}/{own}')}")
    folder, entry = word(f"results/{ctx.run_id}"), EXPERIMENT.replace(".", "\\.")
    told += [
        f"{len(found.steps) + 1}. The answer, from a machine that reads the bucket",
        f"$ aws s3 sync {word(f's3://{ctx.bucket}/{s3_keys.run_prefix(ctx.run_id)}')} {folder}",
        f"$ {KUBECTL} get configmap {found.experiment_map} -o 'jsonpath={{.data.{entry}}}' > {folder}/{EXPERIMENT}",
        f"$ specdecode report {folder}",
    ]
    # Each on one line: a second line would be applied as YAML, or run as a command.
    comments = [f"# {line(said)}".rstrip() for said in told]
    parts = ["\n".join([*comments, ""]), objects_text(found.setup)]
    parts += [f"---\n# {line(part.title)}\n{objects_text(part.objects)}" for part in found.steps]
    return "".join(parts)


def _head(plan: Plan, ctx: RenderContext) -> Iterator[str]:
    experiment = plan.experiment
    yield f"{experiment.name} on a cluster of your own, whole: `kubectl apply -f -` takes it as it is."
    yield "Nothing runs and nothing costs when it is applied: Jobs are suspended, servers have no replica."
    yield "The cluster needs Kubernetes 1.34 or newer and nodes for linux/amd64."
    if experiment.devices:
        yield f"It needs a {experiment.shape.name} with the Neuron DRA driver; each server claims {experiment.devices} "
        yield "devices. A claim that is never allocated: your driver has no device groups; delete its `constraints`."
    yield ""
    yield "What you fill in:"
    yield f"- the bucket: {ctx.bucket} (--bucket) in {ctx.region} (--region). Weights, artifacts and results lie there."
    yield f"- the bundle: {ctx.bundle_uri} (--bundle-uri) with the hash {ctx.bundle_sha256} (--bundle-sha256);"
    yield "  `make bundle` in a checkout of specdecode makes it and prints both."
    for model in plan.models_to_stage:
        if model.import_prefix:
            yield f"- weights of {model.id}: upload them to s3://{ctx.bucket}/{model.import_prefix}"
    yield ""
    yield "What you make once, after this is applied:"
    yield f"- what may read and write the bucket: a role of IAM on the account {ACCOUNT} (IRSA),"
    yield f"    {KUBECTL} annotate serviceaccount {ACCOUNT} eks.amazonaws.com/role-arn=ARN"
    yield "  or, where there is none, an AWS config file whose [default] has keys:"
    yield f"    {KUBECTL} create secret generic {AWS_SECRET} --from-file=config=FILE"
    if experiment.holds_node:
        yield "- the key that the servers demand:"
        yield f'    {KUBECTL} create secret generic {KEY_SECRET} --from-literal={ENTRY}="$(openssl rand -hex 32)"'
    if any(model.gated for model in plan.models_to_stage):
        yield "- a token of Hugging Face whose owner has accepted the licence of the models:"
        yield f"    {KUBECTL} create secret generic {HUB_SECRET} --from-literal={HUB_ENTRY}=TOKEN"
    yield ""
    yield f"What you run then, in this order, are the lines that begin with `{COMMAND.rstrip()}`. All of them:"
    yield f"    sed -n 's/^{COMMAND.replace('$', '[$]')}//p' FILE | bash -e"
    yield "A step that fails leaves its wave's servers: scale them to 0."
    yield f"To give all up: kubectl delete namespace {NAMESPACE} (the bucket stays)."


def _commands(part: UserStep) -> Iterator[str]:
    if part.before:
        yield f"$ step {_names(part.before)}"
    for server in part.servers:
        yield f"$ {KUBECTL} scale deployment {name_of(server)} --replicas=1"
    for server in part.servers:
        limit = server["spec"]["progressDeadlineSeconds"]
        yield f"$ serves {name_of(server)} {_joined(server['spec']['selector']['matchLabels'])} {limit}"
    if part.asking:
        yield f"$ step {_names(part.asking)}"
    if part.servers:
        yield f"$ {KUBECTL} scale deployment {_names(part.servers)} --replicas=0"
        own = part.servers[0]["metadata"]["labels"]  # of one wave, as all of them
        selector = _joined({key: own[key] for key in (RUN_LABEL, WAVE_LABEL, COMPONENT_LABEL)})
        yield f"$ {KUBECTL} wait pod -l {selector} --for=delete --timeout=300s"


def _joined(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())


def _names(objects: tuple[KubeObject, ...]) -> str:
    return " ".join(map(name_of, objects))
