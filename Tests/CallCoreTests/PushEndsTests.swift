import CallCore
import Foundation
import Testing

/// docs/push-ends.md says which push stops a phone that a push made ring. Each cell of its table is played.
@Suite struct PushEndsTests {
  /// A row of the table: how a device registers, and what it gets for each end.
  struct Row: Sendable {
    var dialect: String
    var sdk: String
    var tokens: String
    var cells: [EndReason: [PushPurpose]]
    var whyNone: String

    var name: String { "\(dialect) \(sdk) (\(tokens))" }
    var sdkNameAndVersion: (String, String) {
      let words = sdk.split(separator: " ").map(String.init)
      return (words.first ?? "", words.dropFirst().joined(separator: " "))
    }
  }

  struct Cell: Sendable, CustomStringConvertible {
    var row: Row
    var reason: EndReason
    var description: String { "\(row.name): \(reason.name)" }
  }

  static let rows: [Row] = {
    let folder = URL(filePath: #filePath).deletingLastPathComponent()
    let path = folder.appending(path: "../../docs/push-ends.md")
    let text = (try? String(contentsOf: path, encoding: .utf8)) ?? ""
    let table = text.split(separator: "\n").map(columns)
    guard let head = table.first(where: { $0.first == "dialect" }) else { return [] }
    return table.filter { $0.count == head.count && $0[0].hasPrefix("`") }.map { read($0, head) }
  }()

  /// Those of calls. No call ends as moved, but a device's part in it.
  static let reasons = EndReason.allCases.filter { $0 != .moved && $0 != .transferred }

  static let cells = rows.flatMap { row in
    reasons.map { Cell(row: row, reason: $0) }
  }

  private static func columns(_ line: Substring) -> [String] {
    guard line.hasPrefix("|") else { return [] }
    return line.dropFirst().split(separator: "|", omittingEmptySubsequences: false).dropLast()
      .map { $0.trimmingCharacters(in: .whitespaces) }
  }

  private static func read(_ columns: [String], _ head: [String]) -> Row {
    var row = Row(
      dialect: columns[0].filter { $0 != "`" }, sdk: columns[1], tokens: columns[2], cells: [:],
      whyNone: columns[columns.count - 1])
    for (name, cell) in zip(head, columns) {
      guard let reason = reasons.first(where: { "`\($0.name)`" == name }) else {
        continue
      }
      row.cells[reason] = cell == "none" ? [] : cell.split(separator: ",").compactMap(purpose)
    }
    return row
  }

  private static func purpose(_ word: Substring) -> PushPurpose? {
    let word = word.filter { $0 != " " && $0 != "`" }
    return PushPurpose.allCases.first { $0.name == word }
  }

  // MARK: The table

  @Test func everyDialectAndClassOfSDKsHasARow() {
    let names = Set(Self.rows.map { "\($0.dialect) \($0.tokens)" })
    #expect(Set(Self.rows.map(\.dialect)) == Set(PushDialect.allCases.map(\.rawValue)))
    #expect(
      names.isSuperset(of: [
        "callmesh VoIP", "callmesh VoIP and alert", "callmesh FCM", "callmesh Web Push",
        "callmesh Web Push at Safari", "twilio Web Push at Safari", "sinch VoIP", "sinch alert",
        "telnyx VoIP", "telnyx FCM", "twilio VoIP", "twilio FCM",
      ]))
    // Every outcome of `derived` that the two vendors with versions have.
    for (dialect, count) in [("telnyx", 3), ("twilio", 2)] {
      let classes = Self.rows.filter { $0.dialect == dialect }.map {
        PushCapabilities.derived(
          dialect: dialect, sdkName: $0.sdkNameAndVersion.0, sdkVersion: $0.sdkNameAndVersion.1
        ).rawValue
      }
      #expect(Set(classes).count == count, "\(dialect)")
    }
    for version in ["iOS-2", "iOS-3", "iOS-4", "iOS-mpn-4", "Android"] {
      #expect(Self.rows.contains { $0.dialect == "telnyx" && $0.sdk.hasPrefix(version) })
    }
    for version in ["2.0", "2.1", "3.", "4.", "5.", "6."] {
      #expect(Self.rows.contains { $0.dialect == "twilio" && $0.sdk.contains(" " + version) })
    }
  }

  @Test func everyNoneHasItsReason() {
    for row in Self.rows {
      #expect(row.cells.count == Self.reasons.count, "\(row.name)")
      let hasNone = row.cells.values.contains { $0.isEmpty }
      #expect(hasNone == !row.whyNone.isEmpty, "\(row.name)")
    }
  }

  // MARK: Each cell

  @Test(arguments: cells) func whatThePhoneGets(cell: Cell) {
    var bench = ringing(cell)
    end(cell.reason, &bench)
    #expect(endReason(bench) == cell.reason)
    bench.pass(.seconds(60))
    #expect(bench.pushes("b1") == cell.row.cells[cell.reason])
    for job in bench.pushes where job.purpose.isCleanUp {
      let dialect = job.dialect
      #expect(dialect.has(job.purpose, at: job.token.provider), "the dialect has no such push")
    }
  }

  /// b1 sleeps and is rung by a push. b2 has a session, unless the call is to reach no device.
  private func ringing(_ cell: Cell) -> Bench {
    var bench = Bench()
    enrol(cell.row, &bench)
    if cell.reason != .unreachable { bench.attach("b2") }
    _ = bench.take()
    bench.place()
    #expect(bench.pushes("b1") == [.ring])
    #expect(bench.pushes.map(\.dialect.rawValue) == [cell.row.dialect])
    let token = bench.pushes.first?.token.token ?? ""
    switch cell.reason {
    // The phone may ring all the same, but nobody waits for it any more.
    case .busy, .unreachable:
      bench.report(.failed(reason: "no answer", mayHaveArrived: true), "b1", token: token)
    default: bench.report(.accepted, "b1", token: token)
    }
    bench.effects.removeAll { if case .push(let job) = $0 { job.purpose == .ring } else { false } }
    return bench
  }

  private func enrol(_ row: Row, _ bench: inout Bench) {
    let other: PushProvider? =
      switch row.tokens {
      case "VoIP": nil
      case "VoIP and alert", "alert": .apns
      case "FCM": .fcm
      case "Web Push", "Web Push at Safari": .webPush
      default: PushProvider.none
      }
    #expect(other != PushProvider.none, "unknown tokens: \(row.tokens)")
    bench.enrol(
      "b1", voip: row.tokens.hasPrefix("VoIP") ? "v1" : nil, alert: other == nil ? nil : "a1",
      alertProvider: other ?? .apns,
      alertTopic: row.tokens.hasSuffix("Safari") ? "https://web.push.apple.com" : "org.example",
      dialect: row.dialect, sdk: row.sdkNameAndVersion)
  }

  private func end(_ reason: EndReason, _ bench: inout Bench) {
    switch reason {
    case .answeredElsewhere: answer(&bench)
    case .declined: bench.say(.decline(.everywhere), "b2")
    case .cancelled: bench.caller(.cancel)
    case .unanswered: bench.pass(.seconds(30))
    case .busy: bench.say(.busy, "b2")
    // No ringing call ends as moved or transferred.
    case .unreachable, .moved, .transferred: break
    // The phone itself has placed the call that goes on. The user's other devices get answered elsewhere.
    case .glare:
      let crossed = CrossedCall(
        call: Bench.callID, caller: "alice", survivor: CallID(high: 0, low: 0), by: "b1")
      bench.caller(.crossed(crossed))
    case .hungUp:
      answer(&bench)
      bench.caller(.hangUp)
    case .failed:
      answer(&bench)
      bench.pass(.seconds(15))
    }
  }

  private func answer(_ bench: inout Bench) {
    bench.answer("b2")
  }

  /// As the journal has it; to the sleeping phone a call that another device answered is over, too.
  private func endReason(_ bench: Bench) -> EndReason? {
    var answered = false
    for entry in bench.journal {
      switch entry.change {
      case .answered: answered = true
      case .ended(let end): return end.reason
      default: break
      }
    }
    return answered ? .answeredElsewhere : nil
  }
}
