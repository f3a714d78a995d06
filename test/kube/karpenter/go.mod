module gpuslice.io/test/kube/karpenter

go 1.21

require github.com/aws/karpenter-provider-aws v1.14.0
