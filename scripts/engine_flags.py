# SPDX-License-Identifier: Apache-2.0
# engine_flags.py FOLDER: gives the options of every manifest in FOLDER to vLLM's own parser. Run by check_engines.sh with
# the Python that has vLLM.
import pathlib
import sys

import yaml
from vllm.entrypoints.openai.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser


def commands(path):
    """Yields the arguments of each server in a manifest: the model first."""
    for document in yaml.safe_load_all(path.read_text()):
        if not document:
            continue
        for service in document.get("services", {}).values():
            if "vllm" in service["image"]:
                yield service["command"]
        for model in document.get("servingEngineSpec", {}).get("modelSpec", []):
            yield [model["modelURL"]] + chart_arguments(model["vllmConfig"])
        template = document.get("spec", {}).get("template", {})
        for container in template.get("spec", {}).get("containers", []):
            if container.get("command", [])[:1] == ["vllm"]:
                yield container["args"]
        services = document.get("spec", {}).get("services", {}) if document.get("kind") == "DynamoGraphDeployment" else {}
        for service in services.values():
            if service["componentType"] == "worker":
                yield without_dynamo(service["extraPodSpec"]["mainContainer"]["args"])


def chart_arguments(config):
    """Returns the options that the chart makes from vllmConfig."""
    names = {"maxModelLen": "--max-model-len", "dtype": "--dtype", "tensorParallelSize": "--tensor-parallel-size",
             "maxNumSeqs": "--max-num-seqs", "gpuMemoryUtilization": "--gpu-memory-utilization"}
    switches = {"enablePrefixCaching": "enable-prefix-caching", "enableChunkedPrefill": "enable-chunked-prefill"}
    arguments = []
    for key, value in config.items():
        if key in names:
            arguments += [names[key], str(value)]
        elif key in switches:
            arguments.append(("--" if value else "--no-") + switches[key])
        elif key != "extraArgs":
            raise SystemExit(f"vllmConfig has the unknown key {key}")
    return arguments + config["extraArgs"]


def without_dynamo(arguments):
    """Converts a worker's arguments to a server's: the model first, without the options that Dynamo itself reads."""
    model = arguments[arguments.index("--model") + 1]
    rest = [model]
    skip = False
    for argument, following in zip(arguments, arguments[1:] + [""]):
        if skip or argument in ("--is-prefill-worker", "--is-decode-worker"):
            skip = False
        elif argument in ("--model", "--disaggregation-mode"):
            skip = True
        else:
            rest.append(argument)
    return rest


def main():
    parser = make_arg_parser(FlexibleArgumentParser())
    count = 0
    for path in sorted(pathlib.Path(sys.argv[1]).glob("**/*.yaml")):
        for arguments in commands(path):
            parsed = parser.parse_args([str(argument) for argument in arguments])
            validate_parsed_serve_args(parsed)
            count += 1
    if count == 0:
        raise SystemExit(f"{sys.argv[1]} has no manifest with a vLLM server")
    print(f"vLLM's parser takes the options of {count} kinds of servers")


main()
