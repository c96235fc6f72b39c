// SPDX-License-Identifier: Apache-2.0
// The part of NCCL that exec/cuda/ uses, for processes that are threads of one test. A collective is work on its
// stream, in which the ranks wait for each other. It ends without a result if the group is aborted.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

struct ncclComm;
using ncclComm_t = ncclComm*;
struct ncclUniqueId {
  char internal[128];
};
enum ncclResult_t { ncclSuccess, ncclInvalidUsage, ncclRemoteError };
enum ncclDataType_t { ncclInt8, ncclFloat32, ncclBfloat16 };
enum ncclRedOp_t { ncclSum };

const char* ncclGetErrorString(ncclResult_t result);
ncclResult_t ncclGetVersion(int* version);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
/// Outside a group call, returns when all ranks have joined; inside one, ncclGroupEnd waits for them.
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
