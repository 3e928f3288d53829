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
