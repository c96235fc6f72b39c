#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# compile.sh OUTPUT ARCHITECTURE NVDISASM NVCC ARGUMENT...: compiles OUTPUT.cubin for one architecture and lists the
# included headers in OUTPUT.d. The assembler's report about registers and spills goes to OUTPUT.log, and the
# instructions to OUTPUT.sass if nvdisasm is installed.
output=$1 architecture=$2 nvdisasm=$3
shift 3
"$@" -cubin "-arch=$architecture" -Xptxas -v -MD -MF "$output.d" -o "$output.cubin" > "$output.log" 2>&1 || {
  cat "$output.log"
  exit 1
}
[ ! -x "$nvdisasm" ] || "$nvdisasm" -c "$output.cubin" > "$output.sass"
