internal import ArgumentParser
internal import CallTelemetry

struct KickCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "kick",
    abstract: "Ends the sessions of a user, or of one device, on all edges.",
    discussion: """
      The devices receive the close code 4011 and reconnect, if they have a good token. To keep \
      somebody out, have your server sign no more tokens for the user and run callctl revoke.

        callctl kick demo ann
        callctl kick demo ann ann-phone

      Exit status: 0 all edges have done it; 1 an edge did not answer; 2 the cluster cannot be \
      reached.
      """)

  @OptionGroup var whose: WhoseSessions
  @Argument(help: "The device's id. (default: all devices of the user)") var device: String?
  @OptionGroup(title: "Which cluster") var cluster: ClusterOptions
  @Flag(help: "JSON in place of text.") var json = false

  func run() async throws {
    let request = KickRequest(app: whose.app, user: whose.user, device: device)
    try await cluster.withCluster { questions in
      let nodes = try await questions.status()
      let edges = KickView.edges(nodes).count
      guard edges > 0 else { throw CallctlError.failed("no edge answers: there are no sessions.") }
      let view = KickView(
        request, try await questions.kick(request, expecting: edges), known: nodes)
      try JSONOutput.print(view, asJSON: json, else: view.text)
      guard view.silentEdges.isEmpty else { throw ExitCode(1) }
    }
  }
}

struct RevokeCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "revoke",
    abstract: "Makes all tokens of a user void that were issued until now, and ends the sessions.",
    discussion: """
      For a stolen phone, or a token that leaked. A coordinator records the order and stores it. It \
      holds on every node, also on those that cannot be reached just now, and over restarts. Tokens that your server signs from the next second on \
      are good: have it ask for the password first. Tokens without the claim iat are void for as \
      long as maxTokenAge.

        callctl revoke demo ann

      The user's devices stay registered, and pushes go on ringing them: unregister the stolen one \
      (DELETE /v1/devices/DEVICE, with a new token).

      Exit status: 0 it is stored, and holds; 1 it is not stored; 2 the cluster cannot be reached.
      """)

  @OptionGroup var whose: WhoseSessions
  @OptionGroup(title: "Which cluster") var cluster: ClusterOptions
  @Flag(help: "JSON in place of text.") var json = false

  func run() async throws {
    try await cluster.withCluster { questions in
      let nodes = try await questions.status()
      let at = KickView.now(nodes, own: CalendarTime.nowMilliseconds() / 1000)
      let request = KickRequest(app: whose.app, user: whose.user, revokedAtSeconds: at)
      try await questions.revoke(
        request, expecting: nodes.count { $0.coordinator != nil })
      let answers = try await questions.kick(request, expecting: KickView.edges(nodes).count)
      let view = KickView(request, answers, known: nodes)
      try JSONOutput.print(view, asJSON: json, else: view.text)
    }
  }
}

/// A user, as tokens name it.
struct WhoseSessions: ParsableArguments {
  @Argument(help: "The app.") var app: String
  @Argument(help: "The user's id.") var user: String

  func validate() throws {
    guard !app.isEmpty, !user.isEmpty else { throw ValidationError("Name an app and a user.") }
  }
}
