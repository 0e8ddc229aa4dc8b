package install

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// networkPolicies close the operator to all clients except those that have to reach it. No
// selector matches the API server, so webhooks are open unless its addresses are given; the
// kubelet's probes are always allowed. Outgoing traffic is not limited, because the address of
// the API server differs from cluster to cluster.
func networkPolicies(o Options) []runtime.Object {
	metrics := networkingv1.NetworkPolicyIngressRule{
		Ports: []networkingv1.NetworkPolicyPort{
			{Port: new(intstr.FromString("metrics")), Protocol: new(corev1.ProtocolTCP)},
		},
		// The label is that of kubebuilder's scaffold.
		From: []networkingv1.NetworkPolicyPeer{{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"metrics": "enabled"}},
		}},
	}
	objects := []runtime.Object{ingress(o.Namespace, "metrics", metrics)}
	if o.Webhooks != nil {
		webhooks := networkingv1.NetworkPolicyIngressRule{
			Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromString("webhooks")),
				Protocol: new(corev1.ProtocolTCP)}},
		}
		for _, cidr := range o.APIServers {
			webhooks.From = append(webhooks.From,
				networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr}})
		}
		objects = append(objects, ingress(o.Namespace, "webhooks", webhooks))
	}
	return objects
}

func ingress(namespace, to string, rule networkingv1.NetworkPolicyIngressRule) runtime.Object {
	return &networkingv1.NetworkPolicy{
		TypeMeta:   typeMeta(networkingv1.SchemeGroupVersion, "NetworkPolicy"),
		ObjectMeta: objectMeta(name+"-"+to, namespace),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: selector},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{rule},
		},
	}
}
