"""Checks what is in deploy/: run by tests/deploy/run.

A check takes what it looks at and returns the problems that it found, as sentences. `main` runs them on the files, and then
on broken copies of them: a check that finds nothing wrong with those has lost its sight, and that is a failure as well.
"""

import copy
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import kubernetes_validate
import promql_parser
import yaml
from cloudcoil.models.keda import v1alpha1 as keda

MANIFESTS = Path("deploy/kubernetes")
DASHBOARD = Path("deploy/grafana/tribunal.json")
DOCKERFILE = Path("deploy/Dockerfile")
COMPOSE = Path("docker-compose.yml")
SETTINGS = Path("shared/tribunal.toml")
LANGUAGES = Path("shared/languages.toml")
METRICS = Path("worker/src/metrics.rs")

# The oldest that we promise, and the newest that the validator knows.
KUBERNETES = ["1.28", kubernetes_validate.latest_version()]
# What KEDA's rabbitmq trigger takes, as far as we use it: to its schema these are texts under any name.
TRIGGER_KEYS = {"protocol", "host", "vhostName", "mode", "value", "queueName"}
# Names the file of the settings, and is none itself.
NO_SETTING = {"TRIBUNAL_CONFIG"}
# What Grafana puts in by itself.
GRAFANA_VARIABLES = {"__rate_interval": "5m", "__range": "3h", "__interval": "1m"}
COLUMNS = 24


# ---- manifests ----


class Strict(yaml.SafeLoader):
    """A key that is there twice is an error, not the later of the two."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len(keys) != len(set(keys)):
            raise yaml.constructor.ConstructorError(None, None, "a key is there twice", node.start_mark)
        return super().construct_mapping(node, deep)


def documents(text):
    return [document for document in yaml.load_all(text, Strict) if document]


def name_of(document):
    return f"{document.get('kind')} {document.get('metadata', {}).get('name')}"


def closed(schema):
    """The same schema, with no other properties than those that it names."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: closed(part) for key, part in schema.items()}
    if isinstance(schema.get("properties"), dict):
        schema.setdefault("additionalProperties", False)
    return schema


KEDA = {
    ("keda.sh/v1alpha1", model.__name__): jsonschema.Draft202012Validator(closed(model.model_json_schema(by_alias=True)))
    for model in (keda.ScaledObject, keda.TriggerAuthentication)
}


def against_schema(document):
    """Every kind has a schema here: one without is one that nobody has checked."""
    validator = KEDA.get((document.get("apiVersion"), document.get("kind")))
    if validator:
        error = jsonschema.exceptions.best_match(validator.iter_errors(document))
        return [f"{name_of(document)}: {error.json_path}: {error.message}"] if error else []
    problems = []
    for version in KUBERNETES:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            problems.append(f"{name_of(document)}: {error.json_path}: {error.message} (Kubernetes {version})")
        except (kubernetes_validate.SchemaNotFoundError, KeyError) as error:
            problems.append(f"{name_of(document)}: has no schema: {getattr(error, 'message', error)}")
    return problems


def files_of(kustomization, folder):
    """What is listed is there, and what is there is listed."""
    listed = set(kustomization.get("resources", []))
    for generator in kustomization.get("configMapGenerator", []):
        listed |= set(generator["files"])
    there = {path.name for path in folder.iterdir()} - {"kustomization.yaml"}
    return [f"kustomization.yaml lists {name}, which is not there" for name in sorted(listed - there)] + [
        f"{name} is there, and kustomization.yaml does not list it" for name in sorted(there - listed)
    ]


def pod_of(document):
    return document.get("spec", {}).get("template")


def found_in(tree, key):
    """All values under this key, however deep."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            if name == key:
                yield value
            yield from found_in(value, key)
    elif isinstance(tree, list):
        for value in tree:
            yield from found_in(value, key)


def references(fleet):
    """What one manifest says of another: no schema can know."""
    problems = []
    named = {(document["kind"], document["metadata"]["name"]): document for document in fleet}
    pods = [(document, pod_of(document)) for document in fleet if pod_of(document)]

    def secret(where, name, key):
        document = named.get(("Secret", name))
        if key not in (document or {}).get("stringData", {}):
            problems.append(f"{where} wants {key} of the Secret {name}, which has none")

    def selects(where, labels):
        if not any(labels.items() <= pod["metadata"]["labels"].items() for _, pod in pods):
            problems.append(f"{where} selects {labels}, and no pod has that")

    def port(where, wanted, ports):
        if isinstance(wanted, str) and wanted not in {port["name"] for port in ports}:
            problems.append(f"{where} wants the port {wanted}, which has no such name")

    for document, pod in pods:
        where = name_of(document)
        if not document["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items():
            problems.append(f"{where} does not select its own pods")
        volumes = {volume["name"] for volume in pod["spec"].get("volumes", [])}
        volumes |= {claim["metadata"]["name"] for claim in document["spec"].get("volumeClaimTemplates", [])}
        for volume in pod["spec"].get("volumes", []):
            config = volume.get("configMap", {}).get("name")
            if config and ("ConfigMap", config) not in named:
                problems.append(f"{where} wants the ConfigMap {config}, which is not there")
        for container in pod["spec"]["containers"]:
            known = set()
            for variable in container.get("env", []):
                for used in re.findall(r"\$\((\w+)\)", variable.get("value", "")):
                    if used not in known:
                        problems.append(f"{where}: {variable['name']} uses $({used}), which does not stand above it")
                known.add(variable["name"])
            for reference in found_in(container, "secretKeyRef"):
                secret(where, reference["name"], reference["key"])
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                for wanted in found_in(container.get(probe, {}), "port"):
                    port(f"{where}: {probe}", wanted, container["ports"])
            for mount in container.get("volumeMounts", []):
                if mount["name"] not in volumes:
                    problems.append(f"{where} mounts the volume {mount['name']}, which is not there")
        scraped = pod["metadata"].get("annotations", {}).get("prometheus.io/port")
        open_ports = {str(port["containerPort"]) for port in found_ports(pod)}
        if scraped and scraped not in open_ports:
            problems.append(f"{where} is to be scraped on port {scraped}, which it does not have")

    for document in fleet:
        where, spec = name_of(document), document.get("spec", {})
        match document["kind"]:
            case "Service":
                selects(where, spec["selector"])
                for _, pod in pods:
                    if spec["selector"].items() <= pod["metadata"]["labels"].items():
                        for service_port in spec["ports"]:
                            port(where, service_port["targetPort"], found_ports(pod))
            case "StatefulSet":
                if ("Service", spec["serviceName"]) not in named:
                    problems.append(f"{where} wants the Service {spec['serviceName']}, which is not there")
            case "PodDisruptionBudget":
                selects(where, spec["selector"]["matchLabels"])
            case "NetworkPolicy":
                if spec["podSelector"]:
                    selects(where, spec["podSelector"]["matchLabels"])
                for peers in [*found_in(spec, "from"), *found_in(spec, "to")]:
                    for peer in peers:
                        if "podSelector" in peer and "namespaceSelector" not in peer:
                            selects(where, peer["podSelector"]["matchLabels"])
            case "TriggerAuthentication":
                for reference in spec["secretTargetRef"]:
                    secret(where, reference["name"], reference["key"])
            case "ScaledObject":
                target = spec["scaleTargetRef"]
                if (target["kind"], target["name"]) not in named:
                    problems.append(f"{where} scales {target['name']}, which is not there")
                elif "replicas" in named[target["kind"], target["name"]]["spec"]:
                    problems.append(f"{where} scales {target['name']}, which has a number of its own")
                for trigger in spec["triggers"]:
                    reference = trigger["authenticationRef"]["name"]
                    if ("TriggerAuthentication", reference) not in named:
                        problems.append(f"{where} wants the TriggerAuthentication {reference}, which is not there")
    return problems


def found_ports(pod):
    return [port for container in pod["spec"]["containers"] for port in container.get("ports", [])]


def environment(fleet):
    """Variables of the worker's containers, as far as they have a value."""
    return {
        variable["name"]: variable.get("value")
        for document in fleet
        if document["kind"] == "Deployment"
        for container in pod_of(document)["spec"]["containers"]
        for variable in container["env"]
    }


# ---- what the product says ----


def keys_of(table, prefix=""):
    for key, value in table.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from keys_of(value, f"{prefix}{key}.")


def settings_exist(variables, settings):
    known = set(keys_of(settings))
    return [
        f"{variable} is no setting: {SETTINGS} has no {key}"
        for variable in sorted(variables)
        if variable.startswith("TRIBUNAL_") and variable not in NO_SETTING
        for key in [variable.removeprefix("TRIBUNAL_").replace("__", ".").lower()]
        if key not in known
    ]


def as_the_product_wants(fleet, settings):
    """Numbers and names that stand in two places."""
    problems = []
    variables = environment(fleet)
    for document in fleet:
        if document["kind"] == "Deployment":
            patience = pod_of(document)["spec"]["terminationGracePeriodSeconds"]
            grace = int(variables.get("TRIBUNAL_WORKER__GRACE_S", settings["worker"]["grace_s"]))
            if patience <= grace:
                problems.append(f"{name_of(document)} is killed after {patience} s, within its grace of {grace} s")
            listen = variables.get("TRIBUNAL_WORKER__LISTEN", "")
            for port in pod_of(document)["spec"]["containers"][0]["ports"]:
                if not listen.endswith(f":{port['containerPort']}"):
                    problems.append(f"{name_of(document)} has port {port['containerPort']} and listens on {listen}")
        if document["kind"] == "ScaledObject":
            requests = f"{settings['queue']['name']}.requests"
            lanes = sorted(trigger["metadata"].get("queueName", "") for trigger in document["spec"]["triggers"])
            if lanes != [requests, f"{requests}.high", f"{requests}.low"]:
                problems.append(f"{name_of(document)} looks at {lanes}, which are not the lanes")
            for trigger in document["spec"]["triggers"]:
                if set(trigger["metadata"]) != TRIGGER_KEYS or trigger["metadata"]["mode"] != "QueueLength":
                    problems.append(f"{name_of(document)}: the trigger {trigger['name']} is not by the length of a queue")
    return problems


def toolchains_are_there(dockerfile, languages):
    """The image for the native sandbox has what the languages name."""
    stage = dockerfile.partition("AS worker-native")[2]
    installed = set(re.findall(r"[a-z0-9.+-]+", stage))
    packages = {language["package"] for language in languages["languages"].values()}
    return [f"{DOCKERFILE}: worker-native does not install {package}" for package in sorted(packages - installed)]


# ---- the dashboard ----


def dashboard_shape(dashboard):
    """What Grafana needs to take it, and to show it on any Prometheus."""
    problems = []
    if dashboard.get("id") is not None:
        problems.append("the dashboard has the id of some Grafana's database")
    for key, kind in {"uid": str, "title": str, "schemaVersion": int, "panels": list, "templating": dict}.items():
        if not isinstance(dashboard.get(key), kind):
            problems.append(f"the dashboard's {key} is missing or wrong")
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    if variables.get("datasource", {}).get("type") != "datasource":
        problems.append("there is no variable `datasource`")
    for variable in variables.values():
        if variable["type"] == "query" and variable["datasource"]["uid"] != "${datasource}":
            problems.append(f"the variable {variable['name']} has a data source of its own")

    taken = {}
    ids = set()
    for panel in dashboard["panels"]:
        where = f"panel {panel.get('title')!r}"
        if not panel.get("title") or not panel.get("type"):
            problems.append(f"{where} has no title or no type")
        if not isinstance(panel.get("id"), int) or panel["id"] in ids:
            problems.append(f"{where} has no id, or another panel's")
        ids.add(panel.get("id"))
        place = panel["gridPos"]
        if place["x"] < 0 or place["w"] < 1 or place["h"] < 1 or place["x"] + place["w"] > COLUMNS:
            problems.append(f"{where} is not on the grid")
        for cell in cells(place):
            if cell in taken:
                problems.append(f"{where} lies on {taken[cell]}")
                break
            taken[cell] = where
        if panel["type"] == "row":
            continue
        if not panel.get("targets"):
            problems.append(f"{where} asks nothing")
        for target in panel.get("targets", []):
            if target.get("datasource", {}).get("uid") != "${datasource}" or panel["datasource"]["uid"] != "${datasource}":
                problems.append(f"{where} has a data source of its own")
            problems += [f"{where}: {problem}" for problem in query(target.get("expr", ""), variables)]
        letters = [target.get("refId") for target in panel.get("targets", [])]
        if len(letters) != len(set(letters)):
            problems.append(f"{where} has two targets of one name")
    return problems


def cells(place):
    return {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}


def query(expression, variables):
    """Parses a query as Prometheus would get it."""
    if not expression:
        return ["a target has no expr"]
    used = set(re.findall(r"\$\{?(\w+)\}?", expression))
    unknown = used - set(GRAFANA_VARIABLES) - set(variables)
    if unknown:
        return [f"there is no variable {', '.join(sorted(unknown))}"]
    filled = re.sub(r"\$\{?(\w+)\}?", lambda name: GRAFANA_VARIABLES.get(name[1], "x"), expression)
    try:
        promql_parser.parse(filled)
    except ValueError as error:
        return [f"{expression}: {error}"]
    return []


def metrics_exist(dashboard, names):
    """A metric that nobody exposes is an empty panel, which looks like silence."""
    asked = [target.get("expr", "") for panel in dashboard["panels"] for target in panel.get("targets", [])]
    asked += [variable.get("definition", "") for variable in dashboard["templating"]["list"]]
    problems = []
    for name in sorted(set(re.findall(r"\btribunal_\w+", " ".join(asked)))):
        histogram = re.fullmatch(r"(tribunal_\w+_seconds)(_bucket|_sum|_count)?", name)
        if histogram and not histogram[2]:
            problems.append(f"{name} is a histogram: ask for its _bucket, _sum or _count")
        if (histogram[1] if histogram else name) not in names:
            problems.append(f"{name} is on the dashboard, and {METRICS} does not have it")
    return problems


# ---- what must be refused ----


def broken(original, *changes):
    """A copy for each change: a path, and what is to stand there, or be done to what stands there."""
    for path, value in changes:
        damaged = copy.deepcopy(original)
        place = damaged
        for step in path[:-1]:
            place = place[step]
        if value is MISSPELLED:
            place[f"{path[-1]}x"] = place.pop(path[-1])
        elif value is MISSING:
            del place[path[-1]]
        else:
            place[path[-1]] = value
        yield f"{'.'.join(map(str, path))} {value!r}", damaged


class Word:
    def __init__(self, word):
        self.word = word

    def __repr__(self):
        return self.word


MISSPELLED, MISSING = Word("misspelled"), Word("missing")


def given(check, *more):
    """The check, with everything given already but the first thing that it looks at."""

    def with_more(what):
        return check(what, *more)

    with_more.__name__ = check.__name__
    return with_more


def blind_spots(fleet, kustomization, settings, languages, dockerfile, dashboard, names):
    """Broken copies that a check did not refuse."""
    by_name = {name_of(document): document for document in fleet}
    accepted = []

    def refuse(check, what, damaged):
        if not check(damaged):
            accepted.append(f"{check.__name__} has nothing against {what}")

    for name, document in by_name.items():
        changes = [(("metadata",), MISSPELLED), (("kind",), "Unknown"), (("metadata", "labels"), "text")]
        if "spec" in document:
            changes += [(("spec",), MISSPELLED), (("spec", next(iter(document["spec"]))), MISSPELLED), (("spec",), ["list"])]
        for what, damaged in broken(document, *changes):
            refuse(against_schema, f"{name}: {what}", damaged)
    container = ("spec", "template", "spec", "containers", 0)
    deep = {
        "Deployment worker": [
            (("spec", "replicas"), "two"),
            (("spec", "template", "spec", "terminationGracePeriodSeconds"), "45s"),
            (("spec", "template", "spec", "nodeSelector"), MISSPELLED),
            ((*container, "securityContext", "privileged"), "yes"),
            ((*container, "readinessProbe", "httpGet", "path"), MISSPELLED),
            ((*container, "ports", 0, "containerPort"), "http"),
            ((*container, "env", 0, "valueFrom"), MISSPELLED),
            ((*container, "resources", "requests"), MISSPELLED),
        ],
        "StatefulSet rabbitmq": [
            (("spec", "serviceName"), 1),
            (("spec", "volumeClaimTemplates", 0, "spec", "accessModes"), "ReadWriteOnce"),
        ],
        "NetworkPolicy worker": [(("spec", "egress", 0, "to"), MISSPELLED), (("spec", "podSelector"), MISSING)],
        "ScaledObject worker": [
            (("spec", "minReplicaCount"), "two"),
            (("spec", "maxReplicaCount"), MISSPELLED),
            (("spec", "scaleTargetRef", "name"), MISSING),
            (("spec", "triggers", 0, "authenticationRef"), MISSPELLED),
            (("spec", "triggers", 0, "metadata", "value"), 8),
            (("spec", "advanced", "horizontalPodAutoscalerConfig", "behavior", "scaleDown"), MISSPELLED),
        ],
        "TriggerAuthentication rabbitmq": [
            (("spec", "secretTargetRef", 0, "parameter"), MISSPELLED),
            (("spec", "secretTargetRef"), "rabbitmq"),
        ],
    }
    for name, changes in deep.items():
        for what, damaged in broken(by_name[name], *changes):
            refuse(against_schema, f"{name}: {what}", damaged)

    at = {name_of(document): number for number, document in enumerate(fleet)}
    worker, scaler = at["Deployment worker"], at["ScaledObject worker"]
    for what, damaged in broken(
        fleet,
        ((worker, "spec", "replicas"), 2),
        ((worker, "spec", "template", "metadata", "labels"), {"app.kubernetes.io/name": "other"}),
        ((worker, *container, "readinessProbe", "httpGet", "port"), "http"),
        ((worker, *container, "env", 0, "valueFrom", "secretKeyRef", "key"), "user"),
        ((worker, *container, "env", 0, "name"), "OTHER"),
        ((scaler, "spec", "scaleTargetRef", "name"), "other"),
        ((at["NetworkPolicy worker"], "spec", "egress", 0, "to", 0, "podSelector", "matchLabels"), {"a": "b"}),
    ):
        refuse(references, what, damaged)
    for what, damaged in broken(
        fleet,
        ((worker, "spec", "template", "spec", "terminationGracePeriodSeconds"), 30),
        ((worker, *container, "ports", 0, "containerPort"), 9101),
        ((scaler, "spec", "triggers", 0, "metadata", "queueName"), "tribunal.request.high"),
        ((scaler, "spec", "triggers", 0, "metadata", "mode"), MISSPELLED),
    ):
        refuse(given(as_the_product_wants, settings), what, damaged)
    for what, damaged in broken(kustomization, (("resources", 0), "other.yaml"), (("configMapGenerator",), [])):
        refuse(given(files_of, MANIFESTS), what, damaged)

    refuse(given(settings_exist, settings), "a setting that is not there", {"TRIBUNAL_WORKER__SLOT"})
    refuse(given(toolchains_are_there, languages), "an image without ruby", dockerfile.replace("ruby", ""))

    shown = next(number for number, panel in enumerate(dashboard["panels"]) if panel["type"] != "row")
    panel, target = ("panels", shown), ("panels", shown, "targets", 0)
    for what, damaged in broken(
        dashboard,
        ((*panel, "id"), dashboard["panels"][0]["id"]),
        ((*panel, "gridPos", "y"), 0),
        ((*panel, "gridPos", "x"), COLUMNS),
        ((*panel, "datasource", "uid"), "P1234"),
        ((*target, "datasource"), MISSING),
        ((*target, "expr"), ""),
        ((*target, "expr"), "sum(rate(tribunal_slots[5m])"),
        ((*target, "expr"), 'tribunal_slots{instance=~"$worker"}'),
        (("schemaVersion",), MISSPELLED),
    ):
        refuse(dashboard_shape, what, damaged)
    for expression in ("tribunal_slot", "tribunal_run_seconds", "tribunal_walk_seconds_bucket"):
        for what, damaged in broken(dashboard, ((*target, "expr"), expression)):
            refuse(given(metrics_exist, names), what, damaged)
    return accepted


# ---- all of it ----


def main():
    problems = []

    def checked(what, found):
        print(f"tests/deploy: {'FAILED' if found else 'ok'}: {what}")
        problems.extend(found)

    kustomization = documents((MANIFESTS / "kustomization.yaml").read_text())[0]
    checked("kustomization.yaml lists what is there", files_of(kustomization, MANIFESTS))
    sources = [document for path in sorted(MANIFESTS.glob("*.yaml")) for document in documents(path.read_text())]
    built = subprocess.run(["kubectl", "kustomize", MANIFESTS], capture_output=True, text=True)
    if built.returncode:
        sys.exit(f"tests/deploy: FAILED: kubectl kustomize: {built.stderr.strip()}")
    fleet = documents(built.stdout)
    written = [document for document in sources if document["kind"] != "Kustomization"]
    checked(
        f"{len(written)} resources as they are written, {len(fleet)} as they are built, against the schemas of "
        f"Kubernetes {' and '.join(KUBERNETES)} and of KEDA",
        [problem for document in [*written, *fleet] for problem in against_schema(document)],
    )
    checked("resources refer to each other rightly", references(fleet))

    settings = tomllib.loads(SETTINGS.read_text())
    languages = tomllib.loads(LANGUAGES.read_text())
    dockerfile = DOCKERFILE.read_text()
    compose = documents(COMPOSE.read_text())[0]
    variables = {*environment(fleet), *compose["services"]["worker"]["environment"]}
    checked("every TRIBUNAL_ variable is a setting", settings_exist(variables, settings))
    checked("times, ports and lanes are the product's", as_the_product_wants(fleet, settings))
    checked("the worker's image has all toolchains", toolchains_are_there(dockerfile, languages))

    dashboard = json.loads(DASHBOARD.read_text())
    checked(f"{len(dashboard['panels'])} panels of the dashboard", dashboard_shape(dashboard))
    names = set(re.findall(r'"(tribunal_\w+)"', METRICS.read_text())) if METRICS.exists() else set()
    if names:
        checked(f"its metrics are among the worker's {len(names)}", metrics_exist(dashboard, names))
    else:
        checked("its metrics are the worker's", [f"{METRICS} is missing or names no metric: there is nothing to compare with"])

    checked(
        "what is broken is refused",
        blind_spots(fleet, kustomization, settings, languages, dockerfile, dashboard, names),
    )
    for problem in problems:
        print(f"tests/deploy: {problem}", file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
