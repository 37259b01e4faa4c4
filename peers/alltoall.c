/* MPI_Alltoall of blocks of one size, for so long: the shuffle of `cargo xtask peers`.
 *
 * usage: mpirun -n RANKS alltoall BLOCK_BYTES RING_BYTES SECONDS
 *
 * For each pair of ranks there are RING_BYTES of memory at the sender and at the receiver, which
 * are used in turn, so that as much memory is in use as with rings of that size. The first eight
 * bytes of each block have its number, which the receiver checks. Rank 0 prints one JSON object;
 * bytes that a rank sends to itself count, as in `rackweave perf shuffle_bw`. */

#include <inttypes.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t number_of(uint64_t call, int from, int to) {
    return call << 16 | (uint64_t)from << 8 | (uint64_t)to;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    long block = argc > 1 ? atol(argv[1]) : 0, ring = argc > 2 ? atol(argv[2]) : 0;
    double seconds = argc > 3 ? atof(argv[3]) : 1;
    if (block < 8 || ring < block) {
        fprintf(stderr, "usage: alltoall BLOCK_BYTES RING_BYTES SECONDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    /* One slice has a block for each rank. */
    size_t slice = (size_t)block * ranks;
    long slices = ring / block;
    char *sent = malloc(slice * slices), *received = malloc(slice * slices);
    if (!sent || !received) {
        fprintf(stderr, "alltoall: no memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    /* Page faults come before the measurement. */
    memset(sent, 1, slice * slices);
    memset(received, 2, slice * slices);
    uint64_t calls = 0;
    int more = 1;
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    while (more) {
        for (long at = 0; at < slices; at++, calls++) {
            char *out = sent + slice * at, *in = received + slice * at;
            for (int to = 0; to < ranks; to++) {
                uint64_t number = number_of(calls, rank, to);
                memcpy(out + to * block, &number, sizeof number);
            }
            MPI_Alltoall(out, block, MPI_BYTE, in, block, MPI_BYTE, MPI_COMM_WORLD);
            for (int from = 0; from < ranks; from++) {
                uint64_t number;
                memcpy(&number, in + from * block, sizeof number);
                if (number != number_of(calls, from, rank)) {
                    fprintf(stderr, "alltoall: rank %d has a wrong block of %d\n", rank, from);
                    MPI_Abort(MPI_COMM_WORLD, 1);
                }
            }
        }
        more = MPI_Wtime() - begun < seconds;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double elapsed = MPI_Wtime() - begun;
    if (rank == 0) {
        double bytes = (double)calls * slice * ranks;
        printf("{\"calls\": %" PRIu64 ", \"gigabytes_per_s\": %.6f}\n", calls,
               bytes / elapsed / 1e9);
    }
    free(sent);
    free(received);
    MPI_Finalize();
    return 0;
}
