// Package api has the Go types of the three kinds that Fescue ships, as kubebuilder would scaffold
// them. The CRDs are Fescue's: their schemas carry the rules and the defaults.
//
// +kubebuilder:object:generate=true
package api

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object paths=.

// The groups and versions of the kinds.
var (
	AtVersion            = schema.GroupVersion{Group: "cnat.fescue.dev", Version: "v1alpha1"}
	WatcherVersion       = schema.GroupVersion{Group: "watch.fescue.dev", Version: "v1alpha1"}
	CustomclusterVersion = schema.GroupVersion{Group: "samplecontroller.fescue.dev", Version: "v1alpha1"}
)

// AddToScheme adds the kinds to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(AtVersion, &At{}, &AtList{})
	s.AddKnownTypes(WatcherVersion, &Watcher{}, &WatcherList{})
	s.AddKnownTypes(CustomclusterVersion, &Customcluster{}, &CustomclusterList{})
	for _, version := range []schema.GroupVersion{AtVersion, WatcherVersion, CustomclusterVersion} {
		metav1.AddToGroupVersion(s, version)
	}
	return nil
}

// Status is the part of the status that all kinds share.
type Status struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// The phases of an At.
const (
	PhasePending = "PENDING"
	PhaseRunning = "RUNNING"
	PhaseDone    = "DONE"
)

// AtSpec is what an At runs, and when.
type AtSpec struct {
	Schedule metav1.Time `json:"schedule"`
	Command  string      `json:"command"`
	Image    string      `json:"image,omitempty"`
}

// AtStatus is how far an At is.
type AtStatus struct {
	Status                  `json:",inline"`
	Phase                   string       `json:"phase,omitempty"`
	LastPhaseTransitionTime *metav1.Time `json:"lastPhaseTransitionTime,omitempty"`
}

// At runs a command in a Pod at a given time.
//
// +kubebuilder:object:root=true
type At struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AtSpec   `json:"spec"`
	Status AtStatus `json:"status,omitempty"`
}

// AtList is a list of Ats.
//
// +kubebuilder:object:root=true
type AtList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []At `json:"items"`
}

// WatcherSpec is a sidecar and its configuration.
type WatcherSpec struct {
	Container        corev1.Container             `json:"container"`
	Volume           *corev1.Volume               `json:"volume,omitempty"`
	ConfigData       map[string]string            `json:"configData,omitempty"`
	ConfigBinaryData map[string][]byte            `json:"configBinaryData,omitempty"`
	ImagePullSecrets *corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	Mode             string                       `json:"mode,omitempty"`
	Selector         *metav1.LabelSelector        `json:"selector,omitempty"`
}

// WatcherStatus names the ConfigMap of a Watcher.
type WatcherStatus struct {
	Status        `json:",inline"`
	ConfigMapName string `json:"configMapName,omitempty"`
}

// Watcher is the template of a sidecar, and its configuration.
//
// +kubebuilder:object:root=true
type Watcher struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WatcherSpec   `json:"spec"`
	Status WatcherStatus `json:"status,omitempty"`
}

// WatcherList is a list of Watchers.
//
// +kubebuilder:object:root=true
type WatcherList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Watcher `json:"items"`
}

// CustomclusterSpec is a number of Pods and their message.
type CustomclusterSpec struct {
	Count   int32  `json:"count"`
	Message string `json:"message"`
}

// CustomclusterStatus is the number of running Pods, their message and their selector.
type CustomclusterStatus struct {
	Status   `json:",inline"`
	Count    int32  `json:"count"`
	Message  string `json:"message"`
	Selector string `json:"selector,omitempty"`
}

// Customcluster keeps a number of Pods running; each prints a message.
//
// +kubebuilder:object:root=true
type Customcluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CustomclusterSpec   `json:"spec"`
	Status CustomclusterStatus `json:"status,omitempty"`
}

// CustomclusterList is a list of Customclusters.
//
// +kubebuilder:object:root=true
type CustomclusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Customcluster `json:"items"`
}
