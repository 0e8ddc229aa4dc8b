package install

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// nonRoot is the user that distroless images know as nonroot.
	nonRoot = 65532
	// gracePeriod is longer than the engine needs to finish running reconciles, and than the
	// webhooks need: 10 s until no API server calls them any more, 20 s to answer pending calls.
	gracePeriod = 45
	// kindsPath is where folders of kinds are mounted, each under its number.
	kindsPath = "/etc/fescue/kinds"
	// namespacesFlag lists the namespaces that the operator is limited to.
	namespacesFlag = "--namespace="
	// annotationKinds recreates the Pods of a Deployment when a kind has changed.
	annotationKinds = "fescue.dev/kinds-hash"
)

var selector = map[string]string{"app.kubernetes.io/name": name, "app.kubernetes.io/component": "operator"}

// OperatorSelector selects, by their labels, the Deployments of all installations.
func OperatorSelector() string { return labels.FormatLabels(selector) }

// Selector selects, by their label, the objects of all installations.
func Selector() string { return labels.FormatLabels(objectMeta("", "").Labels) }

// WorksIn reads from the Deployment of an installation which namespaces it is limited to;
// none means all.
func WorksIn(d *appsv1.Deployment) []string {
	for _, container := range d.Spec.Template.Spec.Containers {
		for _, arg := range container.Args {
			if list, ok := strings.CutPrefix(arg, namespacesFlag); ok {
				return strings.Split(list, ",")
			}
		}
	}
	return nil
}

// namespaceObjects returns the operator's namespace, which limits its Pods to what the operator
// needs. Namespaces shared with others, such as those of its users, are left unchanged.
func namespaceObjects(o Options) []runtime.Object {
	if o.Namespace == metav1.NamespaceDefault || strings.HasPrefix(o.Namespace, "kube-") ||
		slices.Contains(o.Namespaces, o.Namespace) {
		return nil
	}
	meta := objectMeta(o.Namespace, "")
	for _, mode := range []string{"enforce", "audit", "warn"} {
		meta.Labels["pod-security.kubernetes.io/"+mode] = "restricted"
	}
	return []runtime.Object{&corev1.Namespace{TypeMeta: typeMeta(corev1.SchemeGroupVersion, "Namespace"),
		ObjectMeta: meta}}
}

// UserName returns the name of the operator's account as the API server knows it.
func (o Options) UserName() string { return "system:serviceaccount:" + o.Namespace + ":" + name }

func serviceAccount(o Options) runtime.Object {
	return &corev1.ServiceAccount{
		TypeMeta: typeMeta(corev1.SchemeGroupVersion, "ServiceAccount"), ObjectMeta: objectMeta(name, o.Namespace),
		AutomountServiceAccountToken: new(false), // only the operator's Pods ask for it
	}
}

// managerObjects returns the operator and what keeps it reachable.
func managerObjects(o Options) []runtime.Object {
	var objects []runtime.Object
	for i, source := range o.Sources {
		objects = append(objects, sourceConfigMap(i, source, o.Namespace))
	}
	objects = append(objects, deployment(o), &policyv1.PodDisruptionBudget{
		TypeMeta:   typeMeta(policyv1.SchemeGroupVersion, "PodDisruptionBudget"),
		ObjectMeta: objectMeta(name, o.Namespace),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(1)),
			Selector:       &metav1.LabelSelector{MatchLabels: selector},
			// Replicas that are not ready serve no requests, and must not keep a node from
			// being drained.
			UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow),
		},
	}, service(name+"-metrics", o.Namespace, o.metricsPort(), "metrics"))
	return objects
}

// service returns a Service for a named port of the operator.
func service(called, namespace string, port int32, target string) runtime.Object {
	meta := objectMeta(called, namespace)
	meta.Labels["app.kubernetes.io/component"] = target
	return &corev1.Service{
		TypeMeta: typeMeta(corev1.SchemeGroupVersion, "Service"), ObjectMeta: meta,
		Spec: corev1.ServiceSpec{
			Selector: selector,
			Ports: []corev1.ServicePort{{Name: target, Port: port, TargetPort: intstr.FromString(target),
				Protocol: corev1.ProtocolTCP}},
		},
	}
}

// sourceConfigMap holds the files of a folder of kinds.
func sourceConfigMap(i int, source Source, namespace string) runtime.Object {
	data := make(map[string]string, len(source))
	for path, content := range source {
		data[key(path)] = content
	}
	return &corev1.ConfigMap{
		TypeMeta: typeMeta(corev1.SchemeGroupVersion, "ConfigMap"), ObjectMeta: objectMeta(sourceName(i), namespace),
		Data: data,
	}
}

func sourceName(i int) string { return fmt.Sprintf("%s-kinds-%d", name, i) }

// key returns the key of a ConfigMap for a path, which may have slashes.
func key(path string) string { return strings.ReplaceAll(path, "/", "__") }

// hash returns a text that changes when a file of a folder of kinds changes.
func hash(sources []Source) string {
	sum := sha256.New()
	for _, source := range sources {
		for _, path := range slices.Sorted(maps.Keys(source)) {
			_, _ = fmt.Fprintf(sum, "%q %q\n", path, source[path]) // a hash takes every write
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

func deployment(o Options) runtime.Object {
	pod := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      selector,
			Annotations: map[string]string{"kubectl.kubernetes.io/default-container": name},
		},
		Spec: corev1.PodSpec{
			ServiceAccountName:            name,
			AutomountServiceAccountToken:  new(true),
			TerminationGracePeriodSeconds: new(int64(gracePeriod)),
			NodeSelector:                  map[string]string{corev1.LabelOSStable: "linux"}, // as the image
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(nonRoot)), RunAsGroup: new(int64(nonRoot)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{container(o)},
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
				LabelSelector: &metav1.LabelSelector{MatchLabels: selector},
			}},
		},
	}
	if len(o.Sources) > 0 {
		pod.Annotations[annotationKinds] = hash(o.Sources)
	}
	for i, source := range o.Sources {
		volume := corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: sourceName(i)}}
		for _, path := range slices.Sorted(maps.Keys(source)) {
			volume.Items = append(volume.Items, corev1.KeyToPath{Key: key(path), Path: path})
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes,
			corev1.Volume{Name: fmt.Sprintf("kinds-%d", i), VolumeSource: corev1.VolumeSource{ConfigMap: &volume}})
	}
	meta := objectMeta(name, o.Namespace)
	meta.Labels["app.kubernetes.io/component"] = "operator"
	return &appsv1.Deployment{
		TypeMeta: typeMeta(appsv1.SchemeGroupVersion, "Deployment"), ObjectMeta: meta,
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(max(2, o.Shards))), // if one leads, the other is ready to
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: pod,
		},
	}
}

func container(o Options) corev1.Container {
	c := corev1.Container{
		Name: name, Image: o.Image, Args: args(o),
		Ports: []corev1.ContainerPort{
			{Name: "metrics", ContainerPort: o.metricsPort(), Protocol: corev1.ProtocolTCP},
			{Name: "health", ContainerPort: healthPort, Protocol: corev1.ProtocolTCP},
		},
		LivenessProbe:  probe("/livez", 20),
		ReadinessProbe: probe("/readyz", 5),
		// The caches take most of the memory, and most of all while they are first filled.
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"),
				corev1.ResourceMemory: resource.MustParse("128Mi")},
			Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"),
				corev1.ResourceMemory: resource.MustParse("512Mi")},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), RunAsNonRoot: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	if o.Webhooks != nil {
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: "webhooks", ContainerPort: o.Webhooks.Port,
			Protocol: corev1.ProtocolTCP})
	}
	for i := range o.Sources {
		c.VolumeMounts = append(c.VolumeMounts,
			corev1.VolumeMount{Name: fmt.Sprintf("kinds-%d", i), MountPath: fmt.Sprintf("%s/%d", kindsPath, i),
				ReadOnly: true})
	}
	return c
}

// args returns the flags of `fescue run` in its container.
func args(o Options) []string {
	election := "--leader-elect"
	if o.Shards > 1 {
		election = fmt.Sprintf("--shards=%d", o.Shards)
	}
	list := []string{
		"run", election, "--leader-elect-resource-namespace=" + o.Namespace, "--log-format=json",
		fmt.Sprintf("--metrics-listen=:%d", o.metricsPort()), fmt.Sprintf("--health-listen=:%d", healthPort),
	}
	if len(o.Namespaces) > 0 {
		list = append(list, namespacesFlag+strings.Join(o.Namespaces, ","))
	}
	if o.MetricsAuth {
		list = append(list, "--metrics-auth")
	}
	if o.InstallCRDs {
		list = append(list, "--install-crds")
	}
	if o.OwnKindsOnly {
		list = append(list, "--shipped-kinds=false")
	}
	for i := range o.Sources {
		list = append(list, fmt.Sprintf("--kinds=%s/%d", kindsPath, i))
	}
	if o.Webhooks != nil {
		list = append(list, o.Webhooks.Args...)
	}
	return list
}

// probe requests a path periodically.
func probe(path string, seconds int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path,
			Port: intstr.FromString("health")}},
		InitialDelaySeconds: 2, PeriodSeconds: seconds,
	}
}
