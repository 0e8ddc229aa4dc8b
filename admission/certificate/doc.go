// Package certificate keeps the certificate of a webhook server: from files that someone else
// renews, or from a Secret in which Fescue creates and rotates it.
//
// All replicas run Run, which loads the certificate whenever it changes. The leader also runs
// Lead, which creates new certificates and makes the API server trust them before any is served.
// The package does not know webhooks: Lead calls a function that publishes the certificates of
// the trusted authorities.
package certificate
