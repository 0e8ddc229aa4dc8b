#!/usr/bin/env bash
# Runs Fescue on the cluster of $KUBECONFIG, applies a sample, shows it come to DONE,
# and goes on until interrupted. `make run` calls it.
set -euo pipefail

say() {
  if [ -t 1 ]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi
}

log=$(mktemp)
background=()
stop() {
  trap - EXIT INT TERM
  for process in "${background[@]}"; do kill -TERM "$process" 2> /dev/null || true; done
  wait || true
  rm -f "$log"
}
trap stop EXIT
trap 'stop; exit 0' INT TERM

say '$ fescue run --install-crds'
bin/fescue run --install-crds > "$log" 2>&1 &
operator=$!
background+=("$operator")
until grep -q 'kind is running' "$log"; do
  kill -0 "$operator" 2> /dev/null || { cat "$log" >&2; exit 1; }
  sleep 0.1
done
cat "$log"

kubectl delete --ignore-not-found -f config/samples/at.yaml > /dev/null
say '$ kubectl get ats --watch & kubectl apply -f config/samples/at.yaml'
kubectl get ats --watch &
background+=("$!")
sleep 1 # for the watch to be there
kubectl apply -f config/samples/at.yaml
kubectl wait --for=jsonpath='{.status.phase}'=DONE at/at-sample --timeout=5m > /dev/null
sleep 0.5 # for the watch to print it
kill "${background[-1]}"

say '$ kubectl get events --field-selector involvedObject.kind=At'
kubectl get events --field-selector involvedObject.kind=At,involvedObject.name=at-sample
say '$ kubectl get ats'
kubectl get ats

if [ "${DEVCLUSTER_NODE:-}" != kwok ]; then
  say '$ kubectl logs at-sample-pod'
  kubectl logs at-sample-pod
fi

say 'Fescue keeps running, and its log follows; stop it with Ctrl-C. In another terminal:'
printf '  export KUBECONFIG=%s\n  kubectl get ats --watch\n\n' "$KUBECONFIG"
tail -n +1 -f "$log" &
background+=("$!")
wait "$operator"
