/* Stands in for the CUDA runtime and libcuda.so.1: one device, on which nothing is computed. The
   process ends if the host waits for the device. Loaded before torch by LD_PRELOAD. */
#include <stdio.h>
#include <stdlib.h>

static int wait(const char *call)
{
    fprintf(stderr, "the host waits for the device: %s\n", call);
    abort();
}

int cudaDeviceSynchronize(void) { return wait(__func__); }
int cudaEventSynchronize(void *event) { return wait(__func__); }
int cudaStreamSynchronize(void *stream) { return wait(__func__); }

int cudaGetLastError(void) { return 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { return *active = 0; }
int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { return *least = *greatest = 0; }
int cudaEventCreateWithFlags(void **event, unsigned flags) { *event = malloc(1); return 0; }
int cudaEventDestroy(void *event) { return 0; }
int cudaEventRecord(void *event, void *stream) { return 0; }
int cudaEventRecordWithFlags(void *event, void *stream, unsigned flags) { return 0; }
int cudaGetDevice(int *device) { return *device = 0; }
int cudaGetDeviceCount(int *count) { *count = 1; return 0; }
int cudaGetDriverEntryPointByVersion(
    const char *name, void **function, unsigned version, unsigned long long flags, int *result)
{
    *function = cudaGetLastError;
    return *result = 0;
}
int cudaDriverGetVersion(int *version) { *version = 13020; return 0; }
int cudaFree(void *pointer) { return 0; }
int cudaGetDeviceProperties(char *properties, int device)
{
    *(int *)(properties + 360) = 9; /* the major compute capability, in CUDA 12 and 13 */
    return 0;
}
int cudaSetDevice(int device) { return 0; }
int cudaStreamIsCapturing(void *stream, int *status) { return *status = 0; }
int cudaStreamWaitEvent(void *stream, void *event, unsigned flags) { return 0; }
