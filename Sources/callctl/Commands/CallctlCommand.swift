internal import ArgumentParser
internal import CallTelemetry

struct CallctlCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "callctl",
    abstract: "Looks into a Callmesh cluster, and makes keys and tokens for development.",
    discussion: """
      The cluster is asked over NATS: callctl runs wherever NATS can be reached.

        callctl status                      is the cluster well, and what does it do
        callctl call CALL-ID                why did this phone (not) ring
        callctl user demo ann               a user's devices, sessions and calls
        callctl keys --app demo             keys for development
        callctl token --app demo --user ann a token to connect with
      """,
    version: CallmeshVersion.current,
    subcommands: [
      StatusCommand.self, CallCommand.self, UserCommand.self, TokenCommand.self, KeysCommand.self,
    ])
}
