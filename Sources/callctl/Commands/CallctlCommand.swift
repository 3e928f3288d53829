internal import ArgumentParser
internal import CallTelemetry

struct CallctlCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "callctl",
    abstract:
      "Looks into a Callmesh cluster, drains nodes, ends sessions, and makes keys and tokens.",
    discussion: """
      The cluster is asked over NATS: callctl runs wherever NATS can be reached.

        callctl status                      is the cluster well, and what does it do
        callctl users                       who has devices here
        callctl calls --live                what goes on now
        callctl calls --since 2h --ended    what became of the calls of the last two hours
        callctl call CALL-ID                why did this phone (not) ring
        callctl user demo ann               a user's devices, sessions and calls
        callctl drain edge-1 --wait         make a node give up what it holds, to restart it
        callctl resume edge-1               let it serve again
        callctl kick demo ann               end a user's sessions
        callctl revoke demo ann             and no token counts that was issued until now
        callctl webhooks                    how far events have come to the webhooks of apps
        callctl audit                       who ordered what
        callctl nats-permissions            what NATS lets each role publish and subscribe to
        callctl keys --app demo             keys for development
        callctl token --app demo --user ann a token to connect with
      """,
    version: CallmeshVersion.current,
    subcommands: [
      StatusCommand.self, UsersCommand.self, CallsCommand.self, CallCommand.self, UserCommand.self,
      DrainCommand.self, ResumeCommand.self, KickCommand.self, RevokeCommand.self,
      WebhooksCommand.self, AuditCommand.self, NATSPermissionsCommand.self,
      TokenCommand.self, KeysCommand.self,
    ])
}
