// SPDX-License-Identifier: Apache-2.0
// The part of plimsoll that is linked with MPI: a module, loaded only under mpirun. MPI starts the ranks and introduces
// them to each other. All further work uses sockets (study/run/rank_crew.h, exec/group/), because a communicator does
// not survive the death of a rank, while a socket is merely closed.
#include <mpi.h>

#include <cstdlib>
#include <cstring>

namespace {

// On one host MPI needs no network, but by default its TCP transport listens on all interfaces. The user's own settings
// take precedence.
void stay_on_one_host() {
  const char* const all = std::getenv("OMPI_COMM_WORLD_SIZE");
  const char* const here = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (all == nullptr || here == nullptr || std::strcmp(all, here) != 0) return;
#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 5
  ::setenv("OMPI_MCA_btl", "self,vader", 0);
#else
  ::setenv("OMPI_MCA_btl", "self,sm", 0);
#endif
}

}  // namespace

extern "C" {

/// Gives this rank and the number of ranks. Returns 0 if MPI began.
int plimsoll_mpi_begin(int* rank, int* size) {
  stay_on_one_host();
  if (MPI_Init(nullptr, nullptr) != MPI_SUCCESS) return 1;
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, size);
  return 0;
}

/// Gives this rank and the number of ranks on its host, and whether all are on one host.
int plimsoll_mpi_host(int* local, int* locals, int* one_host) {
  MPI_Comm host = MPI_COMM_NULL;
  int here = 0;
  if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host) == MPI_SUCCESS)
    MPI_Comm_size(host, &here);
  if (host != MPI_COMM_NULL) {
    MPI_Comm_rank(host, local);
    MPI_Comm_free(&host);
  }
  *locals = here;
  int fewest = 0, size = 0;
  MPI_Allreduce(&here, &fewest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  *one_host = fewest == size ? 1 : 0;
  return 0;
}

/// Sends rank 0's text to all ranks.
int plimsoll_mpi_share(char* text, int size) { return MPI_Bcast(text, size, MPI_CHAR, 0, MPI_COMM_WORLD); }

/// Collects the texts of all ranks, `size` bytes each, in the order of ranks.
int plimsoll_mpi_gather(char* mine, char* all, int size) {
  return MPI_Allgather(mine, size, MPI_CHAR, all, size, MPI_CHAR, MPI_COMM_WORLD);
}

int plimsoll_mpi_end() { return MPI_Finalize(); }
}
