internal import ArgumentParser
internal import CallTelemetry

struct UsersCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "users",
    abstract: "The users that have a session or a registration.",
    discussion: """
      ATTACHED counts a user's devices with a session, REGISTERED those with a registration (most \
      devices have both), LIVE CALLS TO IT the calls to the user that have not ended. Calls that it \
      placed: callctl calls --live --user USER.

        callctl users                       the first 50 users, by app and name
        callctl users --app demo --limit 1000
        callctl user demo ann               all of one user

      Exit status: 0 the cluster answered, also without any user; 2 the cluster cannot be reached.
      """)

  @Option(help: "Only users of this app.") var app: String?
  @OptionGroup var length: ListLength
  @OptionGroup(title: "Which cluster") var cluster: ClusterOptions
  @Flag(help: "JSON in place of text.") var json = false

  func run() async throws {
    let query = ListQuery(app: app, limit: length.limit)
    let answers = try await cluster.withCluster { try await $0.users(query) }
    let list = ListView(answers, limit: length.limit)
    try JSONOutput.print(list, asJSON: json, else: ListText.users(list))
  }
}

struct CallsCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "calls",
    abstract: "The calls of the cluster, the newest first.",
    discussion: """
      STATE is placed (rings nowhere yet), ringing, answered, or ended with its reason. Without \
      --live the list has ended calls, too, for ten minutes (the setting endedCallKept). AGE is the \
      time since the call was placed. OWNER is the coordinator that decides about it.

        callctl calls --live                what goes on now
        callctl calls --live --user ann     calls that ann placed, and calls to ann
        callctl calls --json --limit 1000   for scripts
        callctl call CALL                   all of one call

      Exit status: 0 the cluster answered, also without any call; 2 the cluster cannot be reached.
      """)

  @Flag(help: "Only calls that have not ended.") var live = false
  @Option(help: "Only calls of this app.") var app: String?
  @Option(help: "Only calls that this user placed, and calls to it.") var user: String?
  @OptionGroup var length: ListLength
  @OptionGroup(title: "Which cluster") var cluster: ClusterOptions
  @Flag(help: "JSON in place of text.") var json = false

  func run() async throws {
    let query = ListQuery(app: app, user: user, live: live, limit: length.limit)
    let answers = try await cluster.withCluster { try await $0.calls(query) }
    let list = ListView(answers, limit: length.limit)
    try JSONOutput.print(list, asJSON: json, else: ListText.calls(list, isLive: live))
  }
}

struct ListLength: ParsableArguments {
  @Option(
    help: ArgumentHelp(
      "The most entries, 1 to \(ListQuery.limitMax). How many more there are is said.",
      valueName: "n"))
  var limit = ListQuery.limitStandard

  func validate() throws {
    try Self.check(limit)
  }

  static func check(_ limit: Int) throws {
    guard (1...ListQuery.limitMax).contains(limit) else {
      throw ValidationError("--limit is \(limit); give 1 to \(ListQuery.limitMax).")
    }
  }
}
