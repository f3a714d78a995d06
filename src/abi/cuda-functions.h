/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The functions that libcuda.so.1 exports (driver 580.159.04, CUDA 13.0), with the types of their parameters.
 * The table has the form X(name, parameters in parentheses). All functions return CUresult. Functions for
 * graphics, video and debuggers are not included. Enums are unsigned int, as in cuda-api.h.
 *
 * Suffixes: _v2 to _v4 for a changed interface; _ptsz and _ptds where stream 0 is the calling thread's own (with
 * a stream argument, without).
 */
#include "abi/cuda-api.h"

/* clang-format off */
#define CUDA_FUNCTIONS(X) \
	X(cuArray3DCreate, (CUarray *, const CUDA_ARRAY3D_DESCRIPTOR_v1 *)) \
	X(cuArray3DCreate_v2, (CUarray *, const CUDA_ARRAY3D_DESCRIPTOR *)) \
	X(cuArray3DGetDescriptor, (CUDA_ARRAY3D_DESCRIPTOR_v1 *, CUarray)) \
	X(cuArray3DGetDescriptor_v2, (CUDA_ARRAY3D_DESCRIPTOR *, CUarray)) \
	X(cuArrayCreate, (CUarray *, const CUDA_ARRAY_DESCRIPTOR_v1 *)) \
	X(cuArrayCreate_v2, (CUarray *, const CUDA_ARRAY_DESCRIPTOR *)) \
	X(cuArrayDestroy, (CUarray)) \
	X(cuArrayGetDescriptor, (CUDA_ARRAY_DESCRIPTOR_v1 *, CUarray)) \
	X(cuArrayGetDescriptor_v2, (CUDA_ARRAY_DESCRIPTOR *, CUarray)) \
	X(cuArrayGetMemoryRequirements, (CUDA_ARRAY_MEMORY_REQUIREMENTS *, CUarray, CUdevice)) \
	X(cuArrayGetPlane, (CUarray *, CUarray, unsigned int)) \
	X(cuArrayGetSparseProperties, (CUDA_ARRAY_SPARSE_PROPERTIES *, CUarray)) \
	X(cuCheckpointProcessCheckpoint, (int, CUcheckpointCheckpointArgs *)) \
	X(cuCheckpointProcessGetRestoreThreadId, (int, int *)) \
	X(cuCheckpointProcessGetState, (int, unsigned int *)) \
	X(cuCheckpointProcessLock, (int, CUcheckpointLockArgs *)) \
	X(cuCheckpointProcessRestore, (int, CUcheckpointRestoreArgs *)) \
	X(cuCheckpointProcessUnlock, (int, CUcheckpointUnlockArgs *)) \
	X(cuCoredumpGetAttribute, (unsigned int, void *, size_t *)) \
	X(cuCoredumpGetAttributeGlobal, (unsigned int, void *, size_t *)) \
	X(cuCoredumpSetAttribute, (unsigned int, void *, size_t *)) \
	X(cuCoredumpSetAttributeGlobal, (unsigned int, void *, size_t *)) \
	X(cuCtxAttach, (CUcontext *, unsigned int)) \
	X(cuCtxCreate, (CUcontext *, unsigned int, CUdevice)) \
	X(cuCtxCreate_v2, (CUcontext *, unsigned int, CUdevice)) \
	X(cuCtxCreate_v3, (CUcontext *, CUexecAffinityParam *, int, unsigned int, CUdevice)) \
	X(cuCtxCreate_v4, (CUcontext *, CUctxCreateParams *, unsigned int, CUdevice)) \
	X(cuCtxDestroy, (CUcontext)) \
	X(cuCtxDestroy_v2, (CUcontext)) \
	X(cuCtxDetach, (CUcontext)) \
	X(cuCtxDisablePeerAccess, (CUcontext)) \
	X(cuCtxEnablePeerAccess, (CUcontext, unsigned int)) \
	X(cuCtxFromGreenCtx, (CUcontext *, CUgreenCtx)) \
	X(cuCtxGetApiVersion, (CUcontext, unsigned int *)) \
	X(cuCtxGetCacheConfig, (unsigned int *)) \
	X(cuCtxGetCurrent, (CUcontext *)) \
	X(cuCtxGetDevResource, (CUcontext, CUdevResource *, unsigned int)) \
	X(cuCtxGetDevice, (CUdevice *)) \
	X(cuCtxGetDevice_v2, (CUdevice *, CUcontext)) \
	X(cuCtxGetExecAffinity, (CUexecAffinityParam *, unsigned int)) \
	X(cuCtxGetFlags, (unsigned int *)) \
	X(cuCtxGetId, (CUcontext, unsigned long long *)) \
	X(cuCtxGetLimit, (size_t *, unsigned int)) \
	X(cuCtxGetSharedMemConfig, (unsigned int *)) \
	X(cuCtxGetStreamPriorityRange, (int *, int *)) \
	X(cuCtxPopCurrent, (CUcontext *)) \
	X(cuCtxPopCurrent_v2, (CUcontext *)) \
	X(cuCtxPushCurrent, (CUcontext)) \
	X(cuCtxPushCurrent_v2, (CUcontext)) \
	X(cuCtxRecordEvent, (CUcontext, CUevent)) \
	X(cuCtxResetPersistingL2Cache, (void)) \
	X(cuCtxSetCacheConfig, (unsigned int)) \
	X(cuCtxSetCurrent, (CUcontext)) \
	X(cuCtxSetFlags, (unsigned int)) \
	X(cuCtxSetLimit, (unsigned int, size_t)) \
	X(cuCtxSetSharedMemConfig, (unsigned int)) \
	X(cuCtxSynchronize, (void)) \
	X(cuCtxSynchronize_v2, (CUcontext)) \
	X(cuCtxWaitEvent, (CUcontext, CUevent)) \
	X(cuDestroyExternalMemory, (CUexternalMemory)) \
	X(cuDestroyExternalSemaphore, (CUexternalSemaphore)) \
	X(cuDevResourceGenerateDesc, (CUdevResourceDesc *, CUdevResource *, unsigned int)) \
	X(cuDevSmResourceSplitByCount, (CUdevResource *, unsigned int *, const CUdevResource *, CUdevResource *, unsigned int, unsigned int)) \
	X(cuDeviceCanAccessPeer, (int *, CUdevice, CUdevice)) \
	X(cuDeviceComputeCapability, (int *, int *, CUdevice)) \
	X(cuDeviceGet, (CUdevice *, int)) \
	X(cuDeviceGetAttribute, (int *, unsigned int, CUdevice)) \
	X(cuDeviceGetByPCIBusId, (CUdevice *, const char *)) \
	X(cuDeviceGetCount, (int *)) \
	X(cuDeviceGetDefaultMemPool, (CUmemoryPool *, CUdevice)) \
	X(cuDeviceGetDevResource, (CUdevice, CUdevResource *, unsigned int)) \
	X(cuDeviceGetExecAffinitySupport, (int *, unsigned int, CUdevice)) \
	X(cuDeviceGetGraphMemAttribute, (CUdevice, unsigned int, void *)) \
	X(cuDeviceGetHostAtomicCapabilities, (unsigned int *, const unsigned int *, unsigned int, CUdevice)) \
	X(cuDeviceGetLuid, (char *, unsigned int *, CUdevice)) \
	X(cuDeviceGetMemPool, (CUmemoryPool *, CUdevice)) \
	X(cuDeviceGetName, (char *, int, CUdevice)) \
	X(cuDeviceGetNvSciSyncAttributes, (void *, CUdevice, int)) \
	X(cuDeviceGetP2PAtomicCapabilities, (unsigned int *, const unsigned int *, unsigned int, CUdevice, CUdevice)) \
	X(cuDeviceGetP2PAttribute, (int *, unsigned int, CUdevice, CUdevice)) \
	X(cuDeviceGetPCIBusId, (char *, int, CUdevice)) \
	X(cuDeviceGetProperties, (CUdevprop *, CUdevice)) \
	X(cuDeviceGetTexture1DLinearMaxWidth, (size_t *, unsigned int, unsigned numChannels, CUdevice)) \
	X(cuDeviceGetUuid, (CUuuid *, CUdevice)) \
	X(cuDeviceGetUuid_v2, (CUuuid *, CUdevice)) \
	X(cuDeviceGraphMemTrim, (CUdevice)) \
	X(cuDevicePrimaryCtxGetState, (CUdevice, unsigned int *, int *)) \
	X(cuDevicePrimaryCtxRelease, (CUdevice)) \
	X(cuDevicePrimaryCtxRelease_v2, (CUdevice)) \
	X(cuDevicePrimaryCtxReset, (CUdevice)) \
	X(cuDevicePrimaryCtxReset_v2, (CUdevice)) \
	X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice)) \
	X(cuDevicePrimaryCtxSetFlags, (CUdevice, unsigned int)) \
	X(cuDevicePrimaryCtxSetFlags_v2, (CUdevice, unsigned int)) \
	X(cuDeviceRegisterAsyncNotification, (CUdevice, CUasyncCallback, void *, CUasyncCallbackHandle *)) \
	X(cuDeviceSetGraphMemAttribute, (CUdevice, unsigned int, void *)) \
	X(cuDeviceSetMemPool, (CUdevice, CUmemoryPool)) \
	X(cuDeviceTotalMem, (unsigned int *, CUdevice)) \
	X(cuDeviceTotalMem_v2, (size_t *, CUdevice)) \
	X(cuDeviceUnregisterAsyncNotification, (CUdevice, CUasyncCallbackHandle)) \
	X(cuDriverGetVersion, (int *)) \
	X(cuEventCreate, (CUevent *, unsigned int)) \
	X(cuEventDestroy, (CUevent)) \
	X(cuEventDestroy_v2, (CUevent)) \
	X(cuEventElapsedTime, (float *, CUevent, CUevent)) \
	X(cuEventElapsedTime_v2, (float *, CUevent, CUevent)) \
	X(cuEventQuery, (CUevent)) \
	X(cuEventRecord, (CUevent, CUstream)) \
	X(cuEventRecordWithFlags, (CUevent, CUstream, unsigned int)) \
	X(cuEventRecordWithFlags_ptsz, (CUevent, CUstream, unsigned int)) \
	X(cuEventRecord_ptsz, (CUevent, CUstream)) \
	X(cuEventSynchronize, (CUevent)) \
	X(cuExternalMemoryGetMappedBuffer, (CUdeviceptr *, CUexternalMemory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *)) \
	X(cuExternalMemoryGetMappedMipmappedArray, (CUmipmappedArray *, CUexternalMemory, const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *)) \
	X(cuFlushGPUDirectRDMAWrites, (unsigned int, unsigned int)) \
	X(cuFuncGetAttribute, (int *, unsigned int, CUfunction)) \
	X(cuFuncGetModule, (CUmodule *, CUfunction)) \
	X(cuFuncGetName, (const char **, CUfunction)) \
	X(cuFuncGetParamInfo, (CUfunction, size_t, size_t *, size_t *)) \
	X(cuFuncIsLoaded, (unsigned int *, CUfunction)) \
	X(cuFuncLoad, (CUfunction)) \
	X(cuFuncSetAttribute, (CUfunction, unsigned int, int)) \
	X(cuFuncSetBlockShape, (CUfunction, int, int, int)) \
	X(cuFuncSetCacheConfig, (CUfunction, unsigned int)) \
	X(cuFuncSetSharedMemConfig, (CUfunction, unsigned int)) \
	X(cuFuncSetSharedSize, (CUfunction, unsigned int)) \
	X(cuGetErrorName, (CUresult, const char **)) \
	X(cuGetErrorString, (CUresult, const char **)) \
	X(cuGetExportTable, (const void **, const CUuuid *)) \
	X(cuGetProcAddress, (const char *, void **, int, uint64_t)) \
	X(cuGetProcAddress_v2, (const char *, void **, int, uint64_t, unsigned int *)) \
	X(cuGraphAddBatchMemOpNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_BATCH_MEM_OP_NODE_PARAMS *)) \
	X(cuGraphAddChildGraphNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraph)) \
	X(cuGraphAddDependencies, (CUgraph, const CUgraphNode *, const CUgraphNode *, size_t)) \
	X(cuGraphAddDependencies_v2, (CUgraph, const CUgraphNode *, const CUgraphNode *, const CUgraphEdgeData *, size_t)) \
	X(cuGraphAddEmptyNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t)) \
	X(cuGraphAddEventRecordNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUevent)) \
	X(cuGraphAddEventWaitNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUevent)) \
	X(cuGraphAddExternalSemaphoresSignalNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *)) \
	X(cuGraphAddExternalSemaphoresWaitNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_EXT_SEM_WAIT_NODE_PARAMS *)) \
	X(cuGraphAddHostNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_HOST_NODE_PARAMS *)) \
	X(cuGraphAddKernelNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_KERNEL_NODE_PARAMS_v1 *)) \
	X(cuGraphAddKernelNode_v2, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_KERNEL_NODE_PARAMS *)) \
	X(cuGraphAddMemAllocNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUDA_MEM_ALLOC_NODE_PARAMS *)) \
	X(cuGraphAddMemFreeNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUdeviceptr)) \
	X(cuGraphAddMemcpyNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_MEMCPY3D *, CUcontext)) \
	X(cuGraphAddMemsetNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_MEMSET_NODE_PARAMS *, CUcontext)) \
	X(cuGraphAddNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraphNodeParams *)) \
	X(cuGraphAddNode_v2, (CUgraphNode *, CUgraph, const CUgraphNode *, const CUgraphEdgeData *, size_t, CUgraphNodeParams *)) \
	X(cuGraphBatchMemOpNodeGetParams, (CUgraphNode, CUDA_BATCH_MEM_OP_NODE_PARAMS *)) \
	X(cuGraphBatchMemOpNodeSetParams, (CUgraphNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *)) \
	X(cuGraphChildGraphNodeGetGraph, (CUgraphNode, CUgraph *)) \
	X(cuGraphClone, (CUgraph *, CUgraph)) \
	X(cuGraphConditionalHandleCreate, (CUgraphConditionalHandle *, CUgraph, CUcontext, unsigned int, unsigned int)) \
	X(cuGraphCreate, (CUgraph *, unsigned int)) \
	X(cuGraphDebugDotPrint, (CUgraph, const char *, unsigned int)) \
	X(cuGraphDestroy, (CUgraph)) \
	X(cuGraphDestroyNode, (CUgraphNode)) \
	X(cuGraphEventRecordNodeGetEvent, (CUgraphNode, CUevent *)) \
	X(cuGraphEventRecordNodeSetEvent, (CUgraphNode, CUevent)) \
	X(cuGraphEventWaitNodeGetEvent, (CUgraphNode, CUevent *)) \
	X(cuGraphEventWaitNodeSetEvent, (CUgraphNode, CUevent)) \
	X(cuGraphExecBatchMemOpNodeSetParams, (CUgraphExec, CUgraphNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *)) \
	X(cuGraphExecChildGraphNodeSetParams, (CUgraphExec, CUgraphNode, CUgraph)) \
	X(cuGraphExecDestroy, (CUgraphExec)) \
	X(cuGraphExecEventRecordNodeSetEvent, (CUgraphExec, CUgraphNode, CUevent)) \
	X(cuGraphExecEventWaitNodeSetEvent, (CUgraphExec, CUgraphNode, CUevent)) \
	X(cuGraphExecExternalSemaphoresSignalNodeSetParams, (CUgraphExec, CUgraphNode, const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *)) \
	X(cuGraphExecExternalSemaphoresWaitNodeSetParams, (CUgraphExec, CUgraphNode, const CUDA_EXT_SEM_WAIT_NODE_PARAMS *)) \
	X(cuGraphExecGetFlags, (CUgraphExec, uint64_t *)) \
	X(cuGraphExecHostNodeSetParams, (CUgraphExec, CUgraphNode, const CUDA_HOST_NODE_PARAMS *)) \
	X(cuGraphExecKernelNodeSetParams, (CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1 *)) \
	X(cuGraphExecKernelNodeSetParams_v2, (CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *)) \
	X(cuGraphExecMemcpyNodeSetParams, (CUgraphExec, CUgraphNode, const CUDA_MEMCPY3D *, CUcontext)) \
	X(cuGraphExecMemsetNodeSetParams, (CUgraphExec, CUgraphNode, const CUDA_MEMSET_NODE_PARAMS *, CUcontext)) \
	X(cuGraphExecNodeSetParams, (CUgraphExec, CUgraphNode, CUgraphNodeParams *)) \
	X(cuGraphExecUpdate, (CUgraphExec, CUgraph, CUgraphNode *, unsigned int *)) \
	X(cuGraphExecUpdate_v2, (CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo *)) \
	X(cuGraphExternalSemaphoresSignalNodeGetParams, (CUgraphNode, CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *)) \
	X(cuGraphExternalSemaphoresSignalNodeSetParams, (CUgraphNode, const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *)) \
	X(cuGraphExternalSemaphoresWaitNodeGetParams, (CUgraphNode, CUDA_EXT_SEM_WAIT_NODE_PARAMS *)) \
	X(cuGraphExternalSemaphoresWaitNodeSetParams, (CUgraphNode, const CUDA_EXT_SEM_WAIT_NODE_PARAMS *)) \
	X(cuGraphGetEdges, (CUgraph, CUgraphNode *, CUgraphNode *, size_t *)) \
	X(cuGraphGetEdges_v2, (CUgraph, CUgraphNode *, CUgraphNode *, CUgraphEdgeData *, size_t *)) \
	X(cuGraphGetNodes, (CUgraph, CUgraphNode *, size_t *)) \
	X(cuGraphGetRootNodes, (CUgraph, CUgraphNode *, size_t *)) \
	X(cuGraphHostNodeGetParams, (CUgraphNode, CUDA_HOST_NODE_PARAMS *)) \
	X(cuGraphHostNodeSetParams, (CUgraphNode, const CUDA_HOST_NODE_PARAMS *)) \
	X(cuGraphInstantiate, (CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t)) \
	X(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long)) \
	X(cuGraphInstantiateWithParams, (CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *)) \
	X(cuGraphInstantiateWithParams_ptsz, (CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *)) \
	X(cuGraphInstantiate_v2, (CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t)) \
	X(cuGraphKernelNodeCopyAttributes, (CUgraphNode, CUgraphNode)) \
	X(cuGraphKernelNodeGetAttribute, (CUgraphNode, CUkernelNodeAttrID, CUkernelNodeAttrValue *)) \
	X(cuGraphKernelNodeGetParams, (CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v1 *)) \
	X(cuGraphKernelNodeGetParams_v2, (CUgraphNode, CUDA_KERNEL_NODE_PARAMS *)) \
	X(cuGraphKernelNodeSetAttribute, (CUgraphNode, CUkernelNodeAttrID, const CUkernelNodeAttrValue *)) \
	X(cuGraphKernelNodeSetParams, (CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1 *)) \
	X(cuGraphKernelNodeSetParams_v2, (CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *)) \
	X(cuGraphLaunch, (CUgraphExec, CUstream)) \
	X(cuGraphLaunch_ptsz, (CUgraphExec, CUstream)) \
	X(cuGraphMemAllocNodeGetParams, (CUgraphNode, CUDA_MEM_ALLOC_NODE_PARAMS *)) \
	X(cuGraphMemFreeNodeGetParams, (CUgraphNode, CUdeviceptr *)) \
	X(cuGraphMemcpyNodeGetParams, (CUgraphNode, CUDA_MEMCPY3D *)) \
	X(cuGraphMemcpyNodeSetParams, (CUgraphNode, const CUDA_MEMCPY3D *)) \
	X(cuGraphMemsetNodeGetParams, (CUgraphNode, CUDA_MEMSET_NODE_PARAMS *)) \
	X(cuGraphMemsetNodeSetParams, (CUgraphNode, const CUDA_MEMSET_NODE_PARAMS *)) \
	X(cuGraphNodeFindInClone, (CUgraphNode *, CUgraphNode, CUgraph)) \
	X(cuGraphNodeGetDependencies, (CUgraphNode, CUgraphNode *, size_t *)) \
	X(cuGraphNodeGetDependencies_v2, (CUgraphNode, CUgraphNode *, CUgraphEdgeData *, size_t *)) \
	X(cuGraphNodeGetDependentNodes, (CUgraphNode, CUgraphNode *, size_t *)) \
	X(cuGraphNodeGetDependentNodes_v2, (CUgraphNode, CUgraphNode *, CUgraphEdgeData *, size_t *)) \
	X(cuGraphNodeGetEnabled, (CUgraphExec, CUgraphNode, unsigned int *)) \
	X(cuGraphNodeGetType, (CUgraphNode, unsigned int *)) \
	X(cuGraphNodeSetEnabled, (CUgraphExec, CUgraphNode, unsigned int)) \
	X(cuGraphNodeSetParams, (CUgraphNode, CUgraphNodeParams *)) \
	X(cuGraphReleaseUserObject, (CUgraph, CUuserObject, unsigned int)) \
	X(cuGraphRemoveDependencies, (CUgraph, const CUgraphNode *, const CUgraphNode *, size_t)) \
	X(cuGraphRemoveDependencies_v2, (CUgraph, const CUgraphNode *, const CUgraphNode *, const CUgraphEdgeData *, size_t)) \
	X(cuGraphRetainUserObject, (CUgraph, CUuserObject, unsigned int, unsigned int)) \
	X(cuGraphUpload, (CUgraphExec, CUstream)) \
	X(cuGraphUpload_ptsz, (CUgraphExec, CUstream)) \
	X(cuGraphicsMapResources, (unsigned int, CUgraphicsResource *, CUstream)) \
	X(cuGraphicsMapResources_ptsz, (unsigned int, CUgraphicsResource *, CUstream)) \
	X(cuGraphicsResourceGetMappedMipmappedArray, (CUmipmappedArray *, CUgraphicsResource)) \
	X(cuGraphicsResourceGetMappedPointer, (CUdeviceptr_v1 *, unsigned int *, CUgraphicsResource)) \
	X(cuGraphicsResourceGetMappedPointer_v2, (CUdeviceptr *, size_t *, CUgraphicsResource)) \
	X(cuGraphicsResourceSetMapFlags, (CUgraphicsResource, unsigned int)) \
	X(cuGraphicsResourceSetMapFlags_v2, (CUgraphicsResource, unsigned int)) \
	X(cuGraphicsSubResourceGetMappedArray, (CUarray *, CUgraphicsResource, unsigned int, unsigned int)) \
	X(cuGraphicsUnmapResources, (unsigned int, CUgraphicsResource *, CUstream)) \
	X(cuGraphicsUnmapResources_ptsz, (unsigned int, CUgraphicsResource *, CUstream)) \
	X(cuGraphicsUnregisterResource, (CUgraphicsResource)) \
	X(cuGreenCtxCreate, (CUgreenCtx *, CUdevResourceDesc, CUdevice, unsigned int)) \
	X(cuGreenCtxDestroy, (CUgreenCtx)) \
	X(cuGreenCtxGetDevResource, (CUgreenCtx, CUdevResource *, unsigned int)) \
	X(cuGreenCtxGetId, (CUgreenCtx, unsigned long long *)) \
	X(cuGreenCtxRecordEvent, (CUgreenCtx, CUevent)) \
	X(cuGreenCtxStreamCreate, (CUstream *, CUgreenCtx, unsigned int, int)) \
	X(cuGreenCtxWaitEvent, (CUgreenCtx, CUevent)) \
	X(cuImportExternalMemory, (CUexternalMemory *, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *)) \
	X(cuImportExternalSemaphore, (CUexternalSemaphore *, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *)) \
	X(cuInit, (unsigned int)) \
	X(cuIpcCloseMemHandle, (CUdeviceptr)) \
	X(cuIpcGetEventHandle, (CUipcEventHandle *, CUevent)) \
	X(cuIpcGetMemHandle, (CUipcMemHandle *, CUdeviceptr)) \
	X(cuIpcOpenEventHandle, (CUevent *, CUipcEventHandle)) \
	X(cuIpcOpenMemHandle, (CUdeviceptr *, CUipcMemHandle, unsigned int)) \
	X(cuIpcOpenMemHandle_v2, (CUdeviceptr *, CUipcMemHandle, unsigned int)) \
	X(cuKernelGetAttribute, (int *, unsigned int, CUkernel, CUdevice)) \
	X(cuKernelGetFunction, (CUfunction *, CUkernel)) \
	X(cuKernelGetLibrary, (CUlibrary *, CUkernel)) \
	X(cuKernelGetName, (const char **, CUkernel)) \
	X(cuKernelGetParamInfo, (CUkernel, size_t, size_t *, size_t *)) \
	X(cuKernelSetAttribute, (unsigned int, int, CUkernel, CUdevice)) \
	X(cuKernelSetCacheConfig, (CUkernel, unsigned int, CUdevice)) \
	X(cuLaunch, (CUfunction)) \
	X(cuLaunchCooperativeKernel, (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, CUstream, void **)) \
	X(cuLaunchCooperativeKernelMultiDevice, (CUDA_LAUNCH_PARAMS *, unsigned int, unsigned int)) \
	X(cuLaunchCooperativeKernel_ptsz, (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, CUstream, void **)) \
	X(cuLaunchGrid, (CUfunction, int, int)) \
	X(cuLaunchGridAsync, (CUfunction, int, int, CUstream)) \
	X(cuLaunchHostFunc, (CUstream, CUhostFn, void *)) \
	X(cuLaunchHostFunc_ptsz, (CUstream, CUhostFn, void *)) \
	X(cuLaunchKernel, (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, CUstream, void **, void **)) \
	X(cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **, void **)) \
	X(cuLaunchKernelEx_ptsz, (const CUlaunchConfig *, CUfunction, void **, void **)) \
	X(cuLaunchKernel_ptsz, (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, CUstream, void **, void **)) \
	X(cuLibraryEnumerateKernels, (CUkernel *, unsigned int, CUlibrary)) \
	X(cuLibraryGetGlobal, (CUdeviceptr *, size_t *, CUlibrary, const char *)) \
	X(cuLibraryGetKernel, (CUkernel *, CUlibrary, const char *)) \
	X(cuLibraryGetKernelCount, (unsigned int *, CUlibrary)) \
	X(cuLibraryGetManaged, (CUdeviceptr *, size_t *, CUlibrary, const char *)) \
	X(cuLibraryGetModule, (CUmodule *, CUlibrary)) \
	X(cuLibraryGetUnifiedFunction, (void **, CUlibrary, const char *)) \
	X(cuLibraryLoadData, (CUlibrary *, const void *, unsigned int *, void **, unsigned int, unsigned int *, void **, unsigned int)) \
	X(cuLibraryLoadFromFile, (CUlibrary *, const char *, unsigned int *, void **, unsigned int, unsigned int *, void **, unsigned int)) \
	X(cuLibraryUnload, (CUlibrary)) \
	X(cuLinkAddData, (CUlinkState, unsigned int, void *, size_t, const char *, unsigned int, unsigned int *, void **)) \
	X(cuLinkAddData_v2, (CUlinkState, unsigned int, void *, size_t, const char *, unsigned int, unsigned int *, void **)) \
	X(cuLinkAddFile, (CUlinkState, unsigned int, const char *, unsigned int, unsigned int *, void **)) \
	X(cuLinkAddFile_v2, (CUlinkState, unsigned int, const char *, unsigned int, unsigned int *, void **)) \
	X(cuLinkComplete, (CUlinkState, void **, size_t *)) \
	X(cuLinkCreate, (unsigned int, unsigned int *, void **, CUlinkState *)) \
	X(cuLinkCreate_v2, (unsigned int, unsigned int *, void **, CUlinkState *)) \
	X(cuLinkDestroy, (CUlinkState)) \
	X(cuLogsCurrent, (CUlogIterator *, unsigned int)) \
	X(cuLogsDumpToFile, (CUlogIterator *, const char *, unsigned int)) \
	X(cuLogsDumpToMemory, (CUlogIterator *, char *, size_t *, unsigned int)) \
	X(cuLogsRegisterCallback, (CUlogsCallback, void *, CUlogsCallbackHandle *)) \
	X(cuLogsUnregisterCallback, (CUlogsCallbackHandle)) \
	X(cuMemAddressFree, (CUdeviceptr, size_t)) \
	X(cuMemAddressReserve, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long)) \
	X(cuMemAdvise, (CUdeviceptr, size_t, unsigned int, CUdevice)) \
	X(cuMemAdvise_v2, (CUdeviceptr, size_t, unsigned int, CUmemLocation)) \
	X(cuMemAlloc, (CUdeviceptr_v1 *, unsigned int)) \
	X(cuMemAllocAsync, (CUdeviceptr *, size_t, CUstream)) \
	X(cuMemAllocAsync_ptsz, (CUdeviceptr *, size_t, CUstream)) \
	X(cuMemAllocFromPoolAsync, (CUdeviceptr *, size_t, CUmemoryPool, CUstream)) \
	X(cuMemAllocFromPoolAsync_ptsz, (CUdeviceptr *, size_t, CUmemoryPool, CUstream)) \
	X(cuMemAllocHost, (void **, unsigned int)) \
	X(cuMemAllocHost_v2, (void **, size_t)) \
	X(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned int)) \
	X(cuMemAllocPitch, (CUdeviceptr_v1 *, unsigned int *, unsigned int, unsigned int, unsigned int)) \
	X(cuMemAllocPitch_v2, (CUdeviceptr *, size_t *, size_t, size_t, unsigned int)) \
	X(cuMemAlloc_v2, (CUdeviceptr *, size_t)) \
	X(cuMemBatchDecompressAsync, (CUmemDecompressParams *, size_t, unsigned int, size_t *, CUstream)) \
	X(cuMemBatchDecompressAsync_ptsz, (CUmemDecompressParams *, size_t, unsigned int, size_t *, CUstream)) \
	X(cuMemCreate, (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long)) \
	X(cuMemDiscardAndPrefetchBatchAsync, (CUdeviceptr *, size_t *, size_t, CUmemLocation *, size_t *, size_t, unsigned long long, CUstream)) \
	X(cuMemDiscardAndPrefetchBatchAsync_ptsz, (CUdeviceptr *, size_t *, size_t, CUmemLocation *, size_t *, size_t, unsigned long long, CUstream)) \
	X(cuMemDiscardBatchAsync, (CUdeviceptr *, size_t *, size_t, unsigned long long, CUstream)) \
	X(cuMemDiscardBatchAsync_ptsz, (CUdeviceptr *, size_t *, size_t, unsigned long long, CUstream)) \
	X(cuMemExportToShareableHandle, (void *, CUmemGenericAllocationHandle, unsigned int, unsigned long long)) \
	X(cuMemFree, (CUdeviceptr_v1)) \
	X(cuMemFreeAsync, (CUdeviceptr, CUstream)) \
	X(cuMemFreeAsync_ptsz, (CUdeviceptr, CUstream)) \
	X(cuMemFreeHost, (void *)) \
	X(cuMemFree_v2, (CUdeviceptr)) \
	X(cuMemGetAccess, (unsigned long long *, const CUmemLocation *, CUdeviceptr)) \
	X(cuMemGetAddressRange, (CUdeviceptr_v1 *, unsigned int *, CUdeviceptr_v1)) \
	X(cuMemGetAddressRange_v2, (CUdeviceptr *, size_t *, CUdeviceptr)) \
	X(cuMemGetAllocationGranularity, (size_t *, const CUmemAllocationProp *, unsigned int)) \
	X(cuMemGetAllocationPropertiesFromHandle, (CUmemAllocationProp *, CUmemGenericAllocationHandle)) \
	X(cuMemGetDefaultMemPool, (CUmemoryPool *, CUmemLocation *, unsigned int)) \
	X(cuMemGetHandleForAddressRange, (void *, CUdeviceptr, size_t, unsigned int, unsigned long long)) \
	X(cuMemGetInfo, (unsigned int *, unsigned int *)) \
	X(cuMemGetInfo_v2, (size_t *, size_t *)) \
	X(cuMemGetMemPool, (CUmemoryPool *, CUmemLocation *, unsigned int)) \
	X(cuMemHostAlloc, (void **, size_t, unsigned int)) \
	X(cuMemHostGetDevicePointer, (CUdeviceptr_v1 *, void *, unsigned int)) \
	X(cuMemHostGetDevicePointer_v2, (CUdeviceptr *, void *, unsigned int)) \
	X(cuMemHostGetFlags, (unsigned int *, void *)) \
	X(cuMemHostRegister, (void *, size_t, unsigned int)) \
	X(cuMemHostRegister_v2, (void *, size_t, unsigned int)) \
	X(cuMemHostUnregister, (void *)) \
	X(cuMemImportFromShareableHandle, (CUmemGenericAllocationHandle *, void *, unsigned int)) \
	X(cuMemMap, (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long)) \
	X(cuMemMapArrayAsync, (CUarrayMapInfo *, unsigned int, CUstream)) \
	X(cuMemMapArrayAsync_ptsz, (CUarrayMapInfo *, unsigned int, CUstream)) \
	X(cuMemPoolCreate, (CUmemoryPool *, const CUmemPoolProps *)) \
	X(cuMemPoolDestroy, (CUmemoryPool)) \
	X(cuMemPoolExportPointer, (CUmemPoolPtrExportData *, CUdeviceptr)) \
	X(cuMemPoolExportToShareableHandle, (void *, CUmemoryPool, unsigned int, unsigned long long)) \
	X(cuMemPoolGetAccess, (unsigned int *, CUmemoryPool, CUmemLocation *)) \
	X(cuMemPoolGetAttribute, (CUmemoryPool, unsigned int, void *)) \
	X(cuMemPoolImportFromShareableHandle, (CUmemoryPool *, void *, unsigned int, unsigned long long)) \
	X(cuMemPoolImportPointer, (CUdeviceptr *, CUmemoryPool, CUmemPoolPtrExportData *)) \
	X(cuMemPoolSetAccess, (CUmemoryPool, const CUmemAccessDesc *, size_t)) \
	X(cuMemPoolSetAttribute, (CUmemoryPool, unsigned int, void *)) \
	X(cuMemPoolTrimTo, (CUmemoryPool, size_t)) \
	X(cuMemPrefetchAsync, (CUdeviceptr, size_t, CUdevice, CUstream)) \
	X(cuMemPrefetchAsync_ptsz, (CUdeviceptr, size_t, CUdevice, CUstream)) \
	X(cuMemPrefetchAsync_v2, (CUdeviceptr, size_t, CUmemLocation, unsigned int, CUstream)) \
	X(cuMemPrefetchAsync_v2_ptsz, (CUdeviceptr, size_t, CUmemLocation, unsigned int, CUstream)) \
	X(cuMemPrefetchBatchAsync, (CUdeviceptr *, size_t *, size_t, CUmemLocation *, size_t *, size_t, unsigned long long, CUstream)) \
	X(cuMemPrefetchBatchAsync_ptsz, (CUdeviceptr *, size_t *, size_t, CUmemLocation *, size_t *, size_t, unsigned long long, CUstream)) \
	X(cuMemRangeGetAttribute, (void *, size_t, unsigned int, CUdeviceptr, size_t)) \
	X(cuMemRangeGetAttributes, (void **, size_t *, unsigned int *, size_t, CUdeviceptr, size_t)) \
	X(cuMemRelease, (CUmemGenericAllocationHandle)) \
	X(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle *, void *)) \
	X(cuMemSetAccess, (CUdeviceptr, size_t, const CUmemAccessDesc *, size_t)) \
	X(cuMemSetMemPool, (CUmemLocation *, unsigned int, CUmemoryPool)) \
	X(cuMemUnmap, (CUdeviceptr, size_t)) \
	X(cuMemcpy, (CUdeviceptr, CUdeviceptr, size_t)) \
	X(cuMemcpy2D, (const CUDA_MEMCPY2D_v1 *)) \
	X(cuMemcpy2DAsync, (const CUDA_MEMCPY2D_v1 *, CUstream)) \
	X(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *, CUstream)) \
	X(cuMemcpy2DAsync_v2_ptsz, (const CUDA_MEMCPY2D *, CUstream)) \
	X(cuMemcpy2DUnaligned, (const CUDA_MEMCPY2D_v1 *)) \
	X(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *)) \
	X(cuMemcpy2DUnaligned_v2_ptds, (const CUDA_MEMCPY2D *)) \
	X(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *)) \
	X(cuMemcpy2D_v2_ptds, (const CUDA_MEMCPY2D *)) \
	X(cuMemcpy3D, (const CUDA_MEMCPY3D_v1 *)) \
	X(cuMemcpy3DAsync, (const CUDA_MEMCPY3D_v1 *, CUstream)) \
	X(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *, CUstream)) \
	X(cuMemcpy3DAsync_v2_ptsz, (const CUDA_MEMCPY3D *, CUstream)) \
	X(cuMemcpy3DBatchAsync, (size_t, CUDA_MEMCPY3D_BATCH_OP *, size_t *, unsigned long long, CUstream)) \
	X(cuMemcpy3DBatchAsync_ptsz, (size_t, CUDA_MEMCPY3D_BATCH_OP *, size_t *, unsigned long long, CUstream)) \
	X(cuMemcpy3DBatchAsync_v2, (size_t, CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream)) \
	X(cuMemcpy3DBatchAsync_v2_ptsz, (size_t, CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream)) \
	X(cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER *)) \
	X(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *, CUstream)) \
	X(cuMemcpy3DPeerAsync_ptsz, (const CUDA_MEMCPY3D_PEER *, CUstream)) \
	X(cuMemcpy3DPeer_ptds, (const CUDA_MEMCPY3D_PEER *)) \
	X(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *)) \
	X(cuMemcpy3D_v2_ptds, (const CUDA_MEMCPY3D *)) \
	X(cuMemcpyAsync, (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
	X(cuMemcpyAsync_ptsz, (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
	X(cuMemcpyAtoA, (CUarray, unsigned int, CUarray, unsigned int, unsigned int)) \
	X(cuMemcpyAtoA_v2, (CUarray, size_t, CUarray, size_t, size_t)) \
	X(cuMemcpyAtoA_v2_ptds, (CUarray, size_t, CUarray, size_t, size_t)) \
	X(cuMemcpyAtoD, (CUdeviceptr_v1, CUarray, unsigned int, unsigned int)) \
	X(cuMemcpyAtoD_v2, (CUdeviceptr, CUarray, size_t, size_t)) \
	X(cuMemcpyAtoD_v2_ptds, (CUdeviceptr, CUarray, size_t, size_t)) \
	X(cuMemcpyAtoH, (void *, CUarray, unsigned int, unsigned int)) \
	X(cuMemcpyAtoHAsync, (void *, CUarray, unsigned int, unsigned int, CUstream)) \
	X(cuMemcpyAtoHAsync_v2, (void *, CUarray, size_t, size_t, CUstream)) \
	X(cuMemcpyAtoHAsync_v2_ptsz, (void *, CUarray, size_t, size_t, CUstream)) \
	X(cuMemcpyAtoH_v2, (void *, CUarray, size_t, size_t)) \
	X(cuMemcpyAtoH_v2_ptds, (void *, CUarray, size_t, size_t)) \
	X(cuMemcpyBatchAsync, (CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, size_t *, CUstream)) \
	X(cuMemcpyBatchAsync_ptsz, (CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, size_t *, CUstream)) \
	X(cuMemcpyBatchAsync_v2, (CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, CUstream)) \
	X(cuMemcpyBatchAsync_v2_ptsz, (CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, CUstream)) \
	X(cuMemcpyDtoA, (CUarray, unsigned int, CUdeviceptr_v1, unsigned int)) \
	X(cuMemcpyDtoA_v2, (CUarray, size_t, CUdeviceptr, size_t)) \
	X(cuMemcpyDtoA_v2_ptds, (CUarray, size_t, CUdeviceptr, size_t)) \
	X(cuMemcpyDtoD, (CUdeviceptr_v1, CUdeviceptr_v1, unsigned int)) \
	X(cuMemcpyDtoDAsync, (CUdeviceptr_v1, CUdeviceptr_v1, unsigned int, CUstream)) \
	X(cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
	X(cuMemcpyDtoDAsync_v2_ptsz, (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
	X(cuMemcpyDtoD_v2, (CUdeviceptr, CUdeviceptr, size_t)) \
	X(cuMemcpyDtoD_v2_ptds, (CUdeviceptr, CUdeviceptr, size_t)) \
	X(cuMemcpyDtoH, (void *, CUdeviceptr_v1, unsigned int)) \
	X(cuMemcpyDtoHAsync, (void *, CUdeviceptr_v1, unsigned int, CUstream)) \
	X(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream)) \
	X(cuMemcpyDtoHAsync_v2_ptsz, (void *, CUdeviceptr, size_t, CUstream)) \
	X(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t)) \
	X(cuMemcpyDtoH_v2_ptds, (void *, CUdeviceptr, size_t)) \
	X(cuMemcpyHtoA, (CUarray, unsigned int, const void *, unsigned int)) \
	X(cuMemcpyHtoAAsync, (CUarray, unsigned int, const void *, unsigned int, CUstream)) \
	X(cuMemcpyHtoAAsync_v2, (CUarray, size_t, const void *, size_t, CUstream)) \
	X(cuMemcpyHtoAAsync_v2_ptsz, (CUarray, size_t, const void *, size_t, CUstream)) \
	X(cuMemcpyHtoA_v2, (CUarray, size_t, const void *, size_t)) \
	X(cuMemcpyHtoA_v2_ptds, (CUarray, size_t, const void *, size_t)) \
	X(cuMemcpyHtoD, (CUdeviceptr_v1, const void *, unsigned int)) \
	X(cuMemcpyHtoDAsync, (CUdeviceptr_v1, const void *, unsigned int, CUstream)) \
	X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream)) \
	X(cuMemcpyHtoDAsync_v2_ptsz, (CUdeviceptr, const void *, size_t, CUstream)) \
	X(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t)) \
	X(cuMemcpyHtoD_v2_ptds, (CUdeviceptr, const void *, size_t)) \
	X(cuMemcpyPeer, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t)) \
	X(cuMemcpyPeerAsync, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream)) \
	X(cuMemcpyPeerAsync_ptsz, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream)) \
	X(cuMemcpyPeer_ptds, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t)) \
	X(cuMemcpy_ptds, (CUdeviceptr, CUdeviceptr, size_t)) \
	X(cuMemsetD16, (CUdeviceptr_v1, unsigned short, unsigned int)) \
	X(cuMemsetD16Async, (CUdeviceptr, unsigned short, size_t, CUstream)) \
	X(cuMemsetD16Async_ptsz, (CUdeviceptr, unsigned short, size_t, CUstream)) \
	X(cuMemsetD16_v2, (CUdeviceptr, unsigned short, size_t)) \
	X(cuMemsetD16_v2_ptds, (CUdeviceptr, unsigned short, size_t)) \
	X(cuMemsetD2D16, (CUdeviceptr_v1, unsigned int, unsigned short, unsigned int, unsigned int)) \
	X(cuMemsetD2D16Async, (CUdeviceptr, size_t, unsigned short, size_t, size_t, CUstream)) \
	X(cuMemsetD2D16Async_ptsz, (CUdeviceptr, size_t, unsigned short, size_t, size_t, CUstream)) \
	X(cuMemsetD2D16_v2, (CUdeviceptr, size_t, unsigned short, size_t, size_t)) \
	X(cuMemsetD2D16_v2_ptds, (CUdeviceptr, size_t, unsigned short, size_t, size_t)) \
	X(cuMemsetD2D32, (CUdeviceptr_v1, unsigned int, unsigned int, unsigned int, unsigned int)) \
	X(cuMemsetD2D32Async, (CUdeviceptr, size_t, unsigned int, size_t, size_t, CUstream)) \
	X(cuMemsetD2D32Async_ptsz, (CUdeviceptr, size_t, unsigned int, size_t, size_t, CUstream)) \
	X(cuMemsetD2D32_v2, (CUdeviceptr, size_t, unsigned int, size_t, size_t)) \
	X(cuMemsetD2D32_v2_ptds, (CUdeviceptr, size_t, unsigned int, size_t, size_t)) \
	X(cuMemsetD2D8, (CUdeviceptr_v1, unsigned int, unsigned char, unsigned int, unsigned int)) \
	X(cuMemsetD2D8Async, (CUdeviceptr, size_t, unsigned char, size_t, size_t, CUstream)) \
	X(cuMemsetD2D8Async_ptsz, (CUdeviceptr, size_t, unsigned char, size_t, size_t, CUstream)) \
	X(cuMemsetD2D8_v2, (CUdeviceptr, size_t, unsigned char, size_t, size_t)) \
	X(cuMemsetD2D8_v2_ptds, (CUdeviceptr, size_t, unsigned char, size_t, size_t)) \
	X(cuMemsetD32, (CUdeviceptr_v1, unsigned int, unsigned int)) \
	X(cuMemsetD32Async, (CUdeviceptr, unsigned int, size_t, CUstream)) \
	X(cuMemsetD32Async_ptsz, (CUdeviceptr, unsigned int, size_t, CUstream)) \
	X(cuMemsetD32_v2, (CUdeviceptr, unsigned int, size_t)) \
	X(cuMemsetD32_v2_ptds, (CUdeviceptr, unsigned int, size_t)) \
	X(cuMemsetD8, (CUdeviceptr_v1, unsigned char, unsigned int)) \
	X(cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream)) \
	X(cuMemsetD8Async_ptsz, (CUdeviceptr, unsigned char, size_t, CUstream)) \
	X(cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t)) \
	X(cuMemsetD8_v2_ptds, (CUdeviceptr, unsigned char, size_t)) \
	X(cuMipmappedArrayCreate, (CUmipmappedArray *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned int)) \
	X(cuMipmappedArrayDestroy, (CUmipmappedArray)) \
	X(cuMipmappedArrayGetLevel, (CUarray *, CUmipmappedArray, unsigned int)) \
	X(cuMipmappedArrayGetMemoryRequirements, (CUDA_ARRAY_MEMORY_REQUIREMENTS *, CUmipmappedArray, CUdevice)) \
	X(cuMipmappedArrayGetSparseProperties, (CUDA_ARRAY_SPARSE_PROPERTIES *, CUmipmappedArray)) \
	X(cuModuleEnumerateFunctions, (CUfunction *, unsigned int, CUmodule)) \
	X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *)) \
	X(cuModuleGetFunctionCount, (unsigned int *, CUmodule)) \
	X(cuModuleGetGlobal, (CUdeviceptr_v1 *, unsigned int *, CUmodule, const char *)) \
	X(cuModuleGetGlobal_v2, (CUdeviceptr *, size_t *, CUmodule, const char *)) \
	X(cuModuleGetLoadingMode, (unsigned int *)) \
	X(cuModuleGetSurfRef, (CUsurfref *, CUmodule, const char *)) \
	X(cuModuleGetTexRef, (CUtexref *, CUmodule, const char *)) \
	X(cuModuleLoad, (CUmodule *, const char *)) \
	X(cuModuleLoadData, (CUmodule *, const void *)) \
	X(cuModuleLoadDataEx, (CUmodule *, const void *, unsigned int, unsigned int *, void **)) \
	X(cuModuleLoadFatBinary, (CUmodule *, const void *)) \
	X(cuModuleUnload, (CUmodule)) \
	X(cuMulticastAddDevice, (CUmemGenericAllocationHandle, CUdevice)) \
	X(cuMulticastBindAddr, (CUmemGenericAllocationHandle, size_t, CUdeviceptr, size_t, unsigned long long)) \
	X(cuMulticastBindMem, (CUmemGenericAllocationHandle, size_t, CUmemGenericAllocationHandle, size_t, size_t, unsigned long long)) \
	X(cuMulticastCreate, (CUmemGenericAllocationHandle *, const CUmulticastObjectProp *)) \
	X(cuMulticastGetGranularity, (size_t *, const CUmulticastObjectProp *, unsigned int)) \
	X(cuMulticastUnbind, (CUmemGenericAllocationHandle, CUdevice, size_t, size_t)) \
	X(cuOccupancyAvailableDynamicSMemPerBlock, (size_t *, CUfunction, int, int)) \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *, CUfunction, int, size_t)) \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, (int *, CUfunction, int, size_t, unsigned int)) \
	X(cuOccupancyMaxActiveClusters, (int *, CUfunction, const CUlaunchConfig *)) \
	X(cuOccupancyMaxPotentialBlockSize, (int *, int *, CUfunction, CUoccupancyB2DSize, size_t, int)) \
	X(cuOccupancyMaxPotentialBlockSizeWithFlags, (int *, int *, CUfunction, CUoccupancyB2DSize, size_t, int, unsigned int)) \
	X(cuOccupancyMaxPotentialClusterSize, (int *, CUfunction, const CUlaunchConfig *)) \
	X(cuParamSetSize, (CUfunction, unsigned int)) \
	X(cuParamSetTexRef, (CUfunction, int, CUtexref)) \
	X(cuParamSetf, (CUfunction, int, float)) \
	X(cuParamSeti, (CUfunction, int, unsigned int)) \
	X(cuParamSetv, (CUfunction, int, void *, unsigned int)) \
	X(cuPointerGetAttribute, (void *, unsigned int, CUdeviceptr)) \
	X(cuPointerGetAttributes, (unsigned int, unsigned int *, void **, CUdeviceptr)) \
	X(cuPointerSetAttribute, (const void *, unsigned int, CUdeviceptr)) \
	X(cuSignalExternalSemaphoresAsync, (const CUexternalSemaphore *, const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *, unsigned int, CUstream)) \
	X(cuSignalExternalSemaphoresAsync_ptsz, (const CUexternalSemaphore *, const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *, unsigned int, CUstream)) \
	X(cuStreamAddCallback, (CUstream, CUstreamCallback, void *, unsigned int)) \
	X(cuStreamAddCallback_ptsz, (CUstream, CUstreamCallback, void *, unsigned int)) \
	X(cuStreamAttachMemAsync, (CUstream, CUdeviceptr, size_t, unsigned int)) \
	X(cuStreamAttachMemAsync_ptsz, (CUstream, CUdeviceptr, size_t, unsigned int)) \
	X(cuStreamBatchMemOp, (CUstream, unsigned int, CUstreamBatchMemOpParams *, unsigned int)) \
	X(cuStreamBatchMemOp_ptsz, (CUstream, unsigned int, CUstreamBatchMemOpParams *, unsigned int)) \
	X(cuStreamBatchMemOp_v2, (CUstream, unsigned int, CUstreamBatchMemOpParams *, unsigned int)) \
	X(cuStreamBatchMemOp_v2_ptsz, (CUstream, unsigned int, CUstreamBatchMemOpParams *, unsigned int)) \
	X(cuStreamBeginCapture, (CUstream)) \
	X(cuStreamBeginCaptureToGraph, (CUstream, CUgraph, const CUgraphNode *, const CUgraphEdgeData *, size_t, unsigned int)) \
	X(cuStreamBeginCaptureToGraph_ptsz, (CUstream, CUgraph, const CUgraphNode *, const CUgraphEdgeData *, size_t, unsigned int)) \
	X(cuStreamBeginCapture_ptsz, (CUstream)) \
	X(cuStreamBeginCapture_v2, (CUstream, unsigned int)) \
	X(cuStreamBeginCapture_v2_ptsz, (CUstream, unsigned int)) \
	X(cuStreamCopyAttributes, (CUstream, CUstream)) \
	X(cuStreamCopyAttributes_ptsz, (CUstream, CUstream)) \
	X(cuStreamCreate, (CUstream *, unsigned int)) \
	X(cuStreamCreateWithPriority, (CUstream *, unsigned int, int)) \
	X(cuStreamDestroy, (CUstream)) \
	X(cuStreamDestroy_v2, (CUstream)) \
	X(cuStreamEndCapture, (CUstream, CUgraph *)) \
	X(cuStreamEndCapture_ptsz, (CUstream, CUgraph *)) \
	X(cuStreamGetAttribute, (CUstream, CUstreamAttrID, CUstreamAttrValue *)) \
	X(cuStreamGetAttribute_ptsz, (CUstream, CUstreamAttrID, CUstreamAttrValue *)) \
	X(cuStreamGetCaptureInfo, (CUstream, unsigned int *, uint64_t *)) \
	X(cuStreamGetCaptureInfo_ptsz, (CUstream, unsigned int *, uint64_t *)) \
	X(cuStreamGetCaptureInfo_v2, (CUstream, unsigned int *, uint64_t *, CUgraph *, const CUgraphNode **, size_t *)) \
	X(cuStreamGetCaptureInfo_v2_ptsz, (CUstream, unsigned int *, uint64_t *, CUgraph *, const CUgraphNode **, size_t *)) \
	X(cuStreamGetCaptureInfo_v3, (CUstream, unsigned int *, uint64_t *, CUgraph *, const CUgraphNode **, const CUgraphEdgeData **, size_t *)) \
	X(cuStreamGetCaptureInfo_v3_ptsz, (CUstream, unsigned int *, uint64_t *, CUgraph *, const CUgraphNode **, const CUgraphEdgeData **, size_t *)) \
	X(cuStreamGetCtx, (CUstream, CUcontext *)) \
	X(cuStreamGetCtx_ptsz, (CUstream, CUcontext *)) \
	X(cuStreamGetCtx_v2, (CUstream, CUcontext *, CUgreenCtx *)) \
	X(cuStreamGetCtx_v2_ptsz, (CUstream, CUcontext *, CUgreenCtx *)) \
	X(cuStreamGetDevice, (CUstream, CUdevice *)) \
	X(cuStreamGetDevice_ptsz, (CUstream, CUdevice *)) \
	X(cuStreamGetFlags, (CUstream, unsigned int *)) \
	X(cuStreamGetFlags_ptsz, (CUstream, unsigned int *)) \
	X(cuStreamGetGreenCtx, (CUstream, CUgreenCtx *)) \
	X(cuStreamGetId, (CUstream, unsigned long long *)) \
	X(cuStreamGetId_ptsz, (CUstream, unsigned long long *)) \
	X(cuStreamGetPriority, (CUstream, int *)) \
	X(cuStreamGetPriority_ptsz, (CUstream, int *)) \
	X(cuStreamIsCapturing, (CUstream, unsigned int *)) \
	X(cuStreamIsCapturing_ptsz, (CUstream, unsigned int *)) \
	X(cuStreamQuery, (CUstream)) \
	X(cuStreamQuery_ptsz, (CUstream)) \
	X(cuStreamSetAttribute, (CUstream, CUstreamAttrID, const CUstreamAttrValue *)) \
	X(cuStreamSetAttribute_ptsz, (CUstream, CUstreamAttrID, const CUstreamAttrValue *)) \
	X(cuStreamSynchronize, (CUstream)) \
	X(cuStreamSynchronize_ptsz, (CUstream)) \
	X(cuStreamUpdateCaptureDependencies, (CUstream, CUgraphNode *, size_t, unsigned int)) \
	X(cuStreamUpdateCaptureDependencies_ptsz, (CUstream, CUgraphNode *, size_t, unsigned int)) \
	X(cuStreamUpdateCaptureDependencies_v2, (CUstream, CUgraphNode *, const CUgraphEdgeData *, size_t, unsigned int)) \
	X(cuStreamUpdateCaptureDependencies_v2_ptsz, (CUstream, CUgraphNode *, const CUgraphEdgeData *, size_t, unsigned int)) \
	X(cuStreamWaitEvent, (CUstream, CUevent, unsigned int)) \
	X(cuStreamWaitEvent_ptsz, (CUstream, CUevent, unsigned int)) \
	X(cuStreamWaitValue32, (CUstream, CUdeviceptr, uint32_t, unsigned int)) \
	X(cuStreamWaitValue32_ptsz, (CUstream, CUdeviceptr, uint32_t, unsigned int)) \
	X(cuStreamWaitValue32_v2, (CUstream, CUdeviceptr, uint32_t, unsigned int)) \
	X(cuStreamWaitValue32_v2_ptsz, (CUstream, CUdeviceptr, uint32_t, unsigned int)) \
	X(cuStreamWaitValue64, (CUstream, CUdeviceptr, uint64_t, unsigned int)) \
	X(cuStreamWaitValue64_ptsz, (CUstream, CUdeviceptr, uint64_t, unsigned int)) \
	X(cuStreamWaitValue64_v2, (CUstream, CUdeviceptr, uint64_t, unsigned int)) \
	X(cuStreamWaitValue64_v2_ptsz, (CUstream, CUdeviceptr, uint64_t, unsigned int)) \
	X(cuStreamWriteValue32, (CUstream, CUdeviceptr, uint32_t, unsigned int)) \
	X(cuStreamWriteValue32_ptsz, (CUstream, CUdeviceptr, uint32_t, unsigned int)) \
	X(cuStreamWriteValue32_v2, (CUstream, CUdeviceptr, uint32_t, unsigned int)) \
	X(cuStreamWriteValue32_v2_ptsz, (CUstream, CUdeviceptr, uint32_t, unsigned int)) \
	X(cuStreamWriteValue64, (CUstream, CUdeviceptr, uint64_t, unsigned int)) \
	X(cuStreamWriteValue64_ptsz, (CUstream, CUdeviceptr, uint64_t, unsigned int)) \
	X(cuStreamWriteValue64_v2, (CUstream, CUdeviceptr, uint64_t, unsigned int)) \
	X(cuStreamWriteValue64_v2_ptsz, (CUstream, CUdeviceptr, uint64_t, unsigned int)) \
	X(cuSurfObjectCreate, (CUsurfObject *, const CUDA_RESOURCE_DESC *)) \
	X(cuSurfObjectDestroy, (CUsurfObject)) \
	X(cuSurfObjectGetResourceDesc, (CUDA_RESOURCE_DESC *, CUsurfObject)) \
	X(cuSurfRefGetArray, (CUarray *, CUsurfref)) \
	X(cuSurfRefSetArray, (CUsurfref, CUarray, unsigned int)) \
	X(cuTensorMapEncodeIm2col, (CUtensorMap *, unsigned int, uint32_t, void *, const uint64_t *, const uint64_t *, const int *, const int *, uint32_t, uint32_t, const uint32_t *, unsigned int, unsigned int, unsigned int, unsigned int)) \
	X(cuTensorMapEncodeIm2colWide, (CUtensorMap *, unsigned int, uint32_t, void *, const uint64_t *, const uint64_t *, int, int, uint32_t, uint32_t, const uint32_t *, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int)) \
	X(cuTensorMapEncodeTiled, (CUtensorMap *, unsigned int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *, const uint32_t *, unsigned int, unsigned int, unsigned int, unsigned int)) \
	X(cuTensorMapReplaceAddress, (CUtensorMap *, void *)) \
	X(cuTexObjectCreate, (CUtexObject *, const CUDA_RESOURCE_DESC *, const CUDA_TEXTURE_DESC *, const CUDA_RESOURCE_VIEW_DESC *)) \
	X(cuTexObjectDestroy, (CUtexObject)) \
	X(cuTexObjectGetResourceDesc, (CUDA_RESOURCE_DESC *, CUtexObject)) \
	X(cuTexObjectGetResourceViewDesc, (CUDA_RESOURCE_VIEW_DESC *, CUtexObject)) \
	X(cuTexObjectGetTextureDesc, (CUDA_TEXTURE_DESC *, CUtexObject)) \
	X(cuTexRefCreate, (CUtexref *)) \
	X(cuTexRefDestroy, (CUtexref)) \
	X(cuTexRefGetAddress, (CUdeviceptr_v1 *, CUtexref)) \
	X(cuTexRefGetAddressMode, (unsigned int *, CUtexref, int)) \
	X(cuTexRefGetAddress_v2, (CUdeviceptr *, CUtexref)) \
	X(cuTexRefGetArray, (CUarray *, CUtexref)) \
	X(cuTexRefGetBorderColor, (float *, CUtexref)) \
	X(cuTexRefGetFilterMode, (unsigned int *, CUtexref)) \
	X(cuTexRefGetFlags, (unsigned int *, CUtexref)) \
	X(cuTexRefGetFormat, (unsigned int *, int *, CUtexref)) \
	X(cuTexRefGetMaxAnisotropy, (int *, CUtexref)) \
	X(cuTexRefGetMipmapFilterMode, (unsigned int *, CUtexref)) \
	X(cuTexRefGetMipmapLevelBias, (float *, CUtexref)) \
	X(cuTexRefGetMipmapLevelClamp, (float *, float *, CUtexref)) \
	X(cuTexRefGetMipmappedArray, (CUmipmappedArray *, CUtexref)) \
	X(cuTexRefSetAddress, (unsigned int *, CUtexref, CUdeviceptr_v1, unsigned int)) \
	X(cuTexRefSetAddress2D, (CUtexref, const CUDA_ARRAY_DESCRIPTOR_v1 *, CUdeviceptr_v1, unsigned int)) \
	X(cuTexRefSetAddress2D_v2, (CUtexref, const CUDA_ARRAY_DESCRIPTOR *, CUdeviceptr, size_t)) \
	X(cuTexRefSetAddress2D_v3, (CUtexref, const CUDA_ARRAY_DESCRIPTOR *, CUdeviceptr, size_t)) \
	X(cuTexRefSetAddressMode, (CUtexref, int, unsigned int)) \
	X(cuTexRefSetAddress_v2, (size_t *, CUtexref, CUdeviceptr, size_t)) \
	X(cuTexRefSetArray, (CUtexref, CUarray, unsigned int)) \
	X(cuTexRefSetBorderColor, (CUtexref, float *)) \
	X(cuTexRefSetFilterMode, (CUtexref, unsigned int)) \
	X(cuTexRefSetFlags, (CUtexref, unsigned int)) \
	X(cuTexRefSetFormat, (CUtexref, unsigned int, int)) \
	X(cuTexRefSetMaxAnisotropy, (CUtexref, unsigned int)) \
	X(cuTexRefSetMipmapFilterMode, (CUtexref, unsigned int)) \
	X(cuTexRefSetMipmapLevelBias, (CUtexref, float)) \
	X(cuTexRefSetMipmapLevelClamp, (CUtexref, float, float)) \
	X(cuTexRefSetMipmappedArray, (CUtexref, CUmipmappedArray, unsigned int)) \
	X(cuThreadExchangeStreamCaptureMode, (unsigned int *)) \
	X(cuUserObjectCreate, (CUuserObject *, void *, CUhostFn, unsigned int, unsigned int)) \
	X(cuUserObjectRelease, (CUuserObject, unsigned int)) \
	X(cuUserObjectRetain, (CUuserObject, unsigned int)) \
	X(cuWaitExternalSemaphoresAsync, (const CUexternalSemaphore *, const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *, unsigned int, CUstream)) \
	X(cuWaitExternalSemaphoresAsync_ptsz, (const CUexternalSemaphore *, const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *, unsigned int, CUstream))
/* clang-format on */
