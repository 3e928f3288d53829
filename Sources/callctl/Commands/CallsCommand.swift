internal import ArgumentParser
internal import CallBus
package import CallCore
internal import CallTelemetry
internal import Glibc

struct CallsCommand: AsyncParsableCommand {
  /// The most calls that a list has, and that memory holds.
  static let limitMax = 100_000
  private static let reasons = EndReason.allCases.filter(\.endsCalls)
  private static let reasonNames = reasons.map(\.name).joined(separator: ", ")

  static let configuration = CommandConfiguration(
    commandName: "calls",
    abstract: "The calls that go on, and the records of those that ended.",
    discussion: """
      Live calls come first, then ended ones, the last that ended first. Records are kept for 30 days \
      (the settings callRecordsKept and callRecordBytes). RANG is the time from the placing to the \
      answer or the end, TALKED that from the answer to the end.

        callctl calls                       what goes on, and what ended last
        callctl calls --live                what goes on now, and which coordinator decides about it
        callctl calls --ended --since 2h --reason unreachable
        callctl calls --user ann --since 2026-11-25T08:00Z
        callctl calls --follow              each call when it has ended, until interrupted
        callctl calls --since 30d --ended --csv --limit 100000 > calls.csv
        callctl call CALL                   all of one call: why did this phone (not) ring

      With --json each call is one line: the record as Proto/callmesh/v1/records.proto has it, with its \
      phase, and shard and owner where its shard still knows it.

      Exit status: 0 answered, also without any call; 1 the records cannot be read (--follow); 2 the \
      cluster cannot be reached.
      """)

  @Flag(help: "Only calls that go on.") var live = false
  @Flag(help: "Only calls that ended.") var ended = false
  @Option(help: "Only calls of this app.") var app: String?
  @Option(
    help:
      "Only calls that this user placed, calls to it, and those that rang or were answered there.")
  var user: String?
  @Option(
    help: ArgumentHelp(
      "Only calls that ended so: \(reasonNames)."))
  var reason: String?
  @Option(
    help: ArgumentHelp(
      "Only calls that go on, or ended since: 90s, 30m, 2h, 7d ago; or a time, 2026-11-25T08:00Z.",
      valueName: "time"))
  var since: String?
  @Option(help: ArgumentHelp("The most calls, 1 to \(limitMax).", valueName: "n"))
  var limit = ListQuery.limitStandard
  @Flag(help: "Then go on, and print each further call when it has ended.") var follow = false
  @OptionGroup(title: "Which cluster") var cluster: ClusterOptions
  @Flag(help: "JSON, one object a line.") var json = false
  @Flag(help: "CSV with a heading.") var csv = false

  func validate() throws {
    func refuse(_ condition: Bool, _ sentence: String) throws {
      if condition { throw ValidationError(sentence) }
    }
    try refuse(
      !(1...Self.limitMax).contains(limit), "--limit is \(limit); give 1 to \(Self.limitMax).")
    try refuse(json && csv, "give --json or --csv, not both.")
    try refuse(live && ended, "give --live or --ended; without them, both are listed.")
    try refuse(live && follow, "--follow shows calls when they have ended: leave --live away.")
    try refuse(live && reason != nil, "--reason is of calls that ended: leave --live away.")
    if let reason, Self.reasons.allSatisfy({ $0.name != reason }) {
      throw ValidationError("--reason is \"\(reason)\"; it is one of \(Self.reasonNames).")
    }
    if let since, SinceTime.parse(since, now: 0) == nil {
      throw ValidationError(
        "--since is \"\(since)\"; write 90s, 30m, 2h or 7d, or a time such as 2026-11-25T08:00Z.")
    }
  }

  private var filter: CallFilter {
    CallFilter(
      app: app, user: user, reason: EndReason.allCases.first { $0.name == reason },
      since: since.flatMap { SinceTime.parse($0, now: CalendarTime.nowMilliseconds()) })
  }

  func run() async throws {
    try await cluster.withCluster { questions in
      if live, !json, !csv {
        let query = ListQuery(app: app, user: user, live: true, limit: limit)
        let list = ListView(try await questions.calls(query), limit: limit)
        return print(ListText.calls(list, isLive: true), terminator: "")
      }
      var listing = CallListing(questions: questions, filter: filter, limit: limit)
      do {
        if !live { try await listing.addRecords() }
      } catch let error as CallctlError where !follow {
        writeToStandardError("callctl: \(error.description)\n")
      }
      if !follow { try await listing.addKnown(live: live, ended: ended) }
      let rows = listing.rows.first(limit)
      show(rows)
      if follow { try await self.follow(questions, from: listing.next, shown: rows) }
    }
  }

  private func show(_ rows: [CallRow]) {
    if json {
      for row in rows { print(row.json) }
    } else if csv {
      print(CallRowsText.csvHeading, terminator: "")
      for row in rows { print(CallRowsText.csv(row), terminator: "") }
    } else {
      // Rows that follow are printed below the table.
      print(CallRowsText.table(follow ? rows.reversed() : rows), terminator: "")
    }
    fflush(nil)
  }

  private func follow(
    _ questions: ClusterQuestions, from first: UInt64, shown: [CallRow]
  ) async throws {
    var follower = CallFollower(
      try await questions.records(), from: first, filter: filter, shown: shown)
    while true {
      let (rows, isBehind) = try await questions.reading { try await follower.further() }
      for row in rows {
        if csv {
          print(CallRowsText.csv(row), terminator: "")
        } else {
          print(json ? row.json : CallRowsText.line(row))
        }
      }
      fflush(nil)
      if !isBehind { try await Task.sleep(for: .milliseconds(500)) }
    }
  }
}

/// A time that an operator writes: how long ago, or when.
package enum SinceTime {
  /// - Parameter now: in milliseconds since 1970.
  package static func parse(_ text: String, now: Int64) -> Timestamp? {
    if let seconds = Lifetime.seconds(text) {
      // More would not fit.
      guard seconds < 100_000_000_000 else { return nil }
      return Timestamp(microseconds: 1000 * now) + .seconds(-seconds)
    }
    return Timestamp(iso8601: text)
  }
}
