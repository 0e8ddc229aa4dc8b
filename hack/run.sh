#!/usr/bin/env bash
# Runs Fescue on the cluster of $KUBECONFIG, applies samples, shows what becomes of them and
# keeps running until interrupted. With $KINDS, a folder, it runs the kinds of that folder
# instead of the shipped ones, without samples. `make run` calls it.
#
# Webhooks need a URL at which the API server reaches this machine: devcluster states one, and
# for another cluster $WEBHOOK_URL does. Without it Fescue runs without webhooks.
set -euo pipefail

say() {
  if [ -t 1 ]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi
}

if [[ $KUBECONFIG != *:* && ! -e $KUBECONFIG ]]; then
  echo "KUBECONFIG=$KUBECONFIG does not exist. To start the embedded cluster, run: unset KUBECONFIG" >&2
  exit 2
fi

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

flags=(--install-crds)
if [ -n "${KINDS:-}" ]; then flags+=(--kinds "$KINDS" --shipped-kinds=false); fi
webhooks=
if [ -n "${WEBHOOK_URL:-}" ]; then
  flags+=(--webhook-url "$WEBHOOK_URL")
  webhooks=on
elif [ -n "${DEVCLUSTER_FREE_ADDRESS:-}" ]; then
  flags+=(--webhook-url "https://$DEVCLUSTER_FREE_ADDRESS" --webhook-listen "$DEVCLUSTER_FREE_ADDRESS")
  webhooks=on
fi
shown=1 # the first line of the log that was not printed yet
say "\$ fescue run ${flags[*]}"
bin/fescue run "${flags[@]}" > "$log" 2>&1 &
operator=$!
background+=("$operator")
await() { # until the log of the operator has a line
  until grep -q "$1" "$log"; do
    kill -0 "$operator" 2> /dev/null || { cat "$log" >&2; exit 1; }
    sleep 0.1
  done
}
samples() {
  await 'kind is running.*kind=At'
  await 'kind is running.*kind=Watcher'
  await 'kind is running.*kind=Customcluster'
  if [ -n "$webhooks" ]; then await 'webhooks are registered'; fi
  cat "$log"
  shown=$(($(wc -l < "$log") + 1))

  kubectl delete --ignore-not-found -f config/samples/at.yaml > /dev/null
  due=$(date -u -d '+4 seconds' +%FT%TZ 2> /dev/null || date -u -v+4S +%FT%TZ) # GNU's date, or BSD's
  say '$ kubectl get ats --watch & kubectl apply -f config/samples/at.yaml  # due in 4 seconds'
  kubectl get ats --watch &
  background+=("$!")
  sleep 1 # until the watch is established
  sed "s/schedule: .*/schedule: \"$due\"/" config/samples/at.yaml | kubectl apply -f -
  kubectl wait --for=jsonpath='{.status.phase}'=DONE at/at-sample --timeout=5m > /dev/null
  sleep 0.5 # until the watch has printed it
  kill "${background[-1]}"

  say '$ kubectl get events --field-selector involvedObject.kind=At'
  kubectl get events --field-selector involvedObject.kind=At,involvedObject.name=at-sample
  say '$ kubectl get ats'
  kubectl get ats

  if [ "${DEVCLUSTER_NODE:-}" != kwok ]; then
    say '$ kubectl logs at-sample-pod'
    kubectl logs at-sample-pod
  fi

  kubectl delete --ignore-not-found -f config/samples/customcluster.yaml > /dev/null
  say '$ kubectl apply -f config/samples/customcluster.yaml  # keeps three Pods running'
  kubectl apply -f config/samples/customcluster.yaml
  kubectl wait --for=condition=Ready customcluster/customcluster-sample --timeout=5m > /dev/null
  say '$ kubectl get customclusters,pods'
  kubectl get customclusters,pods

  if [ -z "$webhooks" ]; then
    say 'Fescue runs without webhooks, so no Pod gets a sidecar. For webhooks, state a URL at'
    printf 'which the API server reaches this machine: make run WEBHOOK_URL=https://HOST:9443\n'
    return
  fi
  kubectl delete --ignore-not-found -f config/samples/watcher.yaml > /dev/null
  say '$ kubectl apply -f config/samples/watcher.yaml  # a sidecar, and a Pod that asks for it'
  kubectl apply -f config/samples/watcher.yaml
  say '$ kubectl get pod watched-sample -o custom-columns=...'
  kubectl get pod watched-sample -o 'custom-columns=NAME:.metadata.name,SIDECARS:.spec.initContainers[*].name,CONTAINERS:.spec.containers[*].name'
}
if [ -z "${KINDS:-}" ]; then samples; fi

say 'Fescue keeps running and its log follows. Stop it with Ctrl-C. In a second terminal:'
printf '  export KUBECONFIG=%s\n' "$KUBECONFIG"
kubectl=$(command -v kubectl)
case $kubectl in
  */.devcluster/*) printf '  export PATH="$PATH:%s"  # for kubectl\n' "${kubectl%/*}" ;;
esac
if [ -z "${KINDS:-}" ]; then
  printf 'and try:\n'
  printf '  kubectl scale customcluster customcluster-sample --replicas=5 && kubectl get pods --watch\n'
  printf '  bin/fescue explain at          # what the kind does, and bin/fescue status -A how its objects are\n'
  printf '  $EDITOR cue/at.cue             # the kind itself: README.md shows how to write your own\n'
fi
printf '\n'
follow=(-f)
if tail --version > /dev/null 2>&1; then follow+=(--pid=$$); fi # GNU's ends even if this script is killed
tail -n "+$shown" "${follow[@]}" "$log" &
background+=("$!")
wait "$operator" || { sleep 0.5; exit 1; } # until tail has printed the reason
