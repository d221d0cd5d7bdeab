module headrace.dev/local/helm

go 1.24.0

tool helm.sh/helm/v3/cmd/helm

require helm.sh/helm/v3 v3.19.5
