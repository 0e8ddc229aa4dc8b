package cli

import "github.com/fescue-dev/fescue/internal/operator"

// connect returns clients of the cluster that the flags select, and its default namespace.
func connect(o *operator.ClusterOptions) (clients *operator.Clients, namespace string, err error) {
	o.UserAgent = userAgent()
	config, namespace, err := o.Config()
	if err != nil {
		return nil, "", err
	}
	clients, err = operator.Connect(config)
	return clients, namespace, err
}
