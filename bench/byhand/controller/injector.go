package controller

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/fescue-dev/fescue/bench/byhand/api"
)

// Injector adds the sidecars of Watchers to Pods that name them in an annotation, or that their
// selectors select. It decodes, changes and encodes the Pod, and the library computes the patch.
type Injector struct {
	Reader  client.Reader
	Decoder admission.Decoder
	// Annotation holds names of Watchers, separated by commas.
	Annotation string
}

// Handle answers a review of a Pod.
func (i *Injector) Handle(ctx context.Context, request admission.Request) admission.Response {
	var pod corev1.Pod
	if err := i.Decoder.Decode(request, &pod); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	watchers, err := i.wanted(ctx, request.Namespace, &pod)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	var names []string
	for _, watcher := range watchers {
		if inject(&pod, watcher) {
			names = append(names, watcher.Name)
		}
	}
	if len(names) == 0 {
		return admission.Allowed("nothing to inject")
	}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "by-hand.bench.fescue.dev/injected", strings.Join(names, ","))
	changed, err := json.Marshal(&pod)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, changed)
}

// wanted returns the Watchers of a Pod, in the order of their names.
func (i *Injector) wanted(ctx context.Context, namespace string, pod *corev1.Pod) ([]*api.Watcher, error) {
	var list api.WatcherList
	if err := i.Reader.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	named := strings.Split(pod.Annotations[i.Annotation], ",")
	var watchers []*api.Watcher
	for n := range list.Items {
		watcher := &list.Items[n]
		isWanted := slices.Contains(named, watcher.Name)
		if !isWanted && watcher.Spec.Selector != nil {
			selector, err := metav1.LabelSelectorAsSelector(watcher.Spec.Selector)
			if err != nil {
				return nil, err
			}
			isWanted = selector.Matches(labels.Set(pod.Labels))
		}
		if isWanted {
			watchers = append(watchers, watcher)
		}
	}
	slices.SortFunc(watchers, func(a, b *api.Watcher) int { return strings.Compare(a.Name, b.Name) })
	return watchers, nil
}

// inject adds what a Watcher adds to a Pod, and reports whether it did: not if the Pod has it.
func inject(pod *corev1.Pod, watcher *api.Watcher) bool {
	container := *watcher.Spec.Container.DeepCopy()
	containers := &pod.Spec.Containers
	if watcher.Spec.Mode != "Container" {
		container.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		containers = &pod.Spec.InitContainers
	}
	if slices.ContainsFunc(*containers, func(c corev1.Container) bool { return c.Name == container.Name }) {
		return false
	}
	container.EnvFrom = append([]corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: configMapName(watcher)},
	}}}, container.EnvFrom...)
	// Without the mount of the token, the API server would add it and call all webhooks again.
	const token = "/var/run/secrets/kubernetes.io/serviceaccount"
	for _, mount := range pod.Spec.Containers[0].VolumeMounts {
		if mount.MountPath == token {
			container.VolumeMounts = append(container.VolumeMounts, mount)
		}
	}
	*containers = append(*containers, container)
	if volume := watcher.Spec.Volume; volume != nil {
		pod.Spec.Volumes = append(pod.Spec.Volumes, *volume.DeepCopy())
	}
	if secret := watcher.Spec.ImagePullSecrets; secret != nil {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, *secret)
	}
	return true
}
