package cli

import (
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fescue-dev/fescue/internal/operator"
)

// connect returns clients of the cluster that the flags select, and its default namespace.
func connect(o *operator.ClusterOptions) (clients *operator.Clients, namespace string, err error) {
	o.UserAgent = userAgent()
	config, namespace, err := o.Config()
	if err != nil {
		return nil, "", err
	}
	config.WarningHandler = rest.NewWarningWriter(os.Stderr, rest.WarningWriterOptions{Deduplicate: true})
	clients, err = operator.Connect(config)
	return clients, namespace, err
}

// completeCluster has shells complete --context with the contexts of the kubeconfig, and --namespace, if the command
// has it, with the namespaces of the cluster, as kubectl does.
func completeCluster(c *cobra.Command, o *operator.ClusterOptions) {
	complete(c, "context", func(*cobra.Command) ([]string, error) {
		rules := clientcmd.NewDefaultClientConfigLoadingRules()
		rules.ExplicitPath = o.Kubeconfig
		config, err := rules.Load()
		if err != nil {
			return nil, err
		}
		return slices.Sorted(maps.Keys(config.Contexts)), nil
	})
	if c.Flags().Lookup("namespace") == nil {
		return
	}
	complete(c, "namespace", func(c *cobra.Command) (names []string, err error) {
		clients, _, err := connect(o)
		if err != nil {
			return nil, err
		}
		list, err := clients.Typed.CoreV1().Namespaces().List(c.Context(), metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names, nil
	})
}

// complete has shells offer values of a flag, and no files in their place. Shells leave out those that do not begin
// with what was typed.
func complete(c *cobra.Command, flag string, values func(*cobra.Command) ([]string, error)) {
	err := c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, _ []string, _ string) ([]cobra.Completion,
		cobra.ShellCompDirective) {
		all, err := values(c)
		if err != nil {
			cobra.CompErrorln(err.Error())
			return nil, cobra.ShellCompDirectiveError
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the flag was added before
	}
}
