internal import ArgumentParser
internal import CallCore
internal import CallTelemetry

struct CallCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "call",
    abstract:
      "A call: its state, its devices, what happened when, and why each device rang or not.",
    discussion: """
      Coordinators remember ended calls for ten minutes (the setting endedCallKept). After that the \
      call's record answers, for 30 days (callRecordsKept). The id is the UUID that stands in every \
      log line, frame and push of the call; callctl calls lists ids.

        callctl calls --live
        callctl call 7d444840-9dc0-11d1-b245-5ffdce74fad2

      Devices choose the ids, so calls of strangers may have the same one: --app and --user say whose it is.

      Exit status: 0 found; 1 no node knows the call, and it has no record; 2 the cluster cannot be reached.
      """)

  @Argument(help: "The call's id.") var id: String
  @Option(help: "The app of the call, with --user: where several calls have this id.") var app:
    String?
  @Option(help: "The user who was called, with --app.") var user: String?
  @OptionGroup(title: "Which cluster") var cluster: ClusterOptions
  @Flag(help: "JSON in place of text.") var json = false

  func validate() throws {
    guard CallID(id) != nil else {
      throw ValidationError(
        "\"\(id)\" is no call id; one looks like 7d444840-9dc0-11d1-b245-5ffdce74fad2.")
    }
    if (app == nil) != (user == nil) {
      throw ValidationError("give --app and --user together: they name the user who was called.")
    }
  }

  private var callee: UserKey? {
    app.flatMap { app in user.map { UserKey(app: app, user: $0) } }
  }

  func run() async throws {
    let id = CallID(id)?.description ?? id
    let view = try await cluster.withCluster { questions in
      let answers = try await questions.call(id, to: callee)
      guard let report = try CallReport.only(answers, id) else {
        if let record = try await recorded(questions) {
          return CallView(CallReport(record), user: nil)
        }
        throw CallctlError.failed(
          "none of \(Figures.counted(answers.count, "node")) knows the call \(id), and it has no "
            + "record. callctl calls lists those that there are.")
      }
      guard let app = report.app, let callee = report.callee else {
        return CallView(report, user: nil)
      }
      let user = try await questions.user(app: app, user: callee).first(where: \.found)
      return CallView(report, user: user)
    }
    try JSONOutput.print(view, asJSON: json, else: CallText.render(view))
  }

  /// The call's record; nil where there is none.
  private func recorded(_ questions: ClusterQuestions) async throws -> CallRecord? {
    guard let call = CallID(id) else { return nil }
    let progress = Progress("Looking for the call's record, the newest first")
    var reader = RecordReader(try await questions.records()) {
      progress.report($0, of: $1, "messages")
    }
    return try await questions.reading { try await reader.record(of: call, to: callee) }
  }
}

struct UserCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "user",
    abstract: "A user: devices, sessions and calls.",
    discussion: """
      callctl users lists apps and users. Example: callctl user demo ann

      The calls are those to the user and those that it placed, at most a hundred of each: those that \
      go on, and those that ended in the last ten minutes (the setting endedCallKept).

      Exit status: 0 found; 1 no node knows the user; 2 the cluster cannot be reached.
      """)

  @Argument(help: "The app.") var app: String
  @Argument(help: "The user's id.") var user: String
  @OptionGroup(title: "Which cluster") var cluster: ClusterOptions
  @Flag(help: "JSON in place of text.") var json = false

  func run() async throws {
    let report = try await cluster.withCluster { questions in
      let answers = try await questions.user(app: app, user: user)
      guard let report = UserAnswers.merged(answers, app: app, user: user) else {
        throw CallctlError.failed(
          "none of \(Figures.counted(answers.count, "node")) knows a user \(user) of the app "
            + "\(app): no session, no registration and no call. Ids are compared letter by letter; "
            + "callctl users lists those that are known.")
      }
      return report
    }
    try JSONOutput.print(
      report, asJSON: json,
      else: UserText.render(report, now: CalendarTime.nowMilliseconds()))
  }
}
