package install

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// metricsPort returns the port on which the operator serves metrics.
func (o Options) metricsPort() int32 {
	if o.MetricsAuth {
		return securePort
	}
	return metricsPort
}

// metricsRoles returns the roles for metrics with authentication, named as in kubebuilder's
// scaffold: one for the operator, to review tokens and access, and one for those who read
// metrics, which is bound to no one.
func metricsRoles(o Options) []runtime.Object {
	if !o.MetricsAuth {
		return nil
	}
	ask := rules([]Right{
		{Group: "authentication.k8s.io", Resource: "tokenreviews", Verb: "create"},
		{Group: "authorization.k8s.io", Resource: "subjectaccessreviews", Verb: "create"},
	})
	read := []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}
	return append(clusterRole(o.ClusterName()+"-metrics-auth", o.Namespace, ask),
		&rbacv1.ClusterRole{TypeMeta: typeMeta(rbacv1.SchemeGroupVersion, "ClusterRole"),
			ObjectMeta: objectMeta(o.ClusterName()+"-metrics-reader", ""), Rules: read})
}

// metricsEndpoint is how a ServiceMonitor reads the metrics: with the token of Prometheus'
// own service account. The certificate is self-signed unless one is given.
func metricsEndpoint(o Options) map[string]any {
	endpoint := map[string]any{"port": "metrics", "path": "/metrics"}
	if o.MetricsAuth {
		endpoint["scheme"] = "https"
		endpoint["bearerTokenFile"] = "/var/run/secrets/kubernetes.io/serviceaccount/token"
		endpoint["tlsConfig"] = map[string]any{"insecureSkipVerify": true}
	}
	return endpoint
}
