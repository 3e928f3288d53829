import CallCore

/// The lines of pushes.
extension RunReport {
  func pushLines(_ style: TextStyle) -> [String] {
    guard let pushes = result.pushes else { return [] }
    var lines = ["", style.bold("Pushes") + " (as the provider had them)"]
    lines += pushCounts(pushes)
    lines += pushTimes(pushes)
    return lines
  }

  private func pushCounts(_ pushes: PushResult) -> [String] {
    var table = TextTable()
    table.add("devices that sleep", Units.count(pushes.sleeping))
    let perCall = Double(pushes.total) / Double(max(result.callsPlaced, 1))
    table.add("pushes", Units.count(pushes.total), "\(Units.fixed(perCall, 2)) per call")
    for purpose in PushPurpose.allCases {
      guard let count = pushes.pushes[purpose] else { continue }
      let late = pushes.late[purpose] ?? 0
      table.add(
        "  " + purpose.name, Units.count(count), late > 0 ? "\(Units.count(late)) late" : "")
    }
    for (answer, count) in pushes.answers.sorted(by: { $0.key < $1.key }) {
      table.add("answered \(answer)", Units.count(count))
    }
    for (name, count) in pushes.cleanUpsSent.sorted(by: { $0.key < $1.key }) {
      let read = pushes.cleanUpsRead[name] ?? 0
      table.add("clean-ups for \(name)", Units.count(count), "\(Units.count(read)) read")
    }
    table.add("woken", Units.count(pushes.woken))
    table.add("woken when the call was over", Units.count(pushes.wokenLate))
    table.add("never woken", Units.count(pushes.neverWoken))
    table.add("expired on arrival", Units.count(pushes.expired))
    table.add("refused over HTTP, asleep", Units.count(pushes.actedByPush))
    table.add("unreadable", Units.count(pushes.unreadable))
    return table.lines()
  }

  private func pushTimes(_ pushes: PushResult) -> [String] {
    var table = TextTable(["place until", "count", "p50", "p90", "p99", "p99.9", "max"])
    for (name, histogram) in [
      ("push at the provider", pushes.toProvider), ("woken device attached", pushes.toAttached),
    ] {
      guard let found = Percentiles(histogram) else {
        table.add(name, "0", "–", "–", "–", "–", "–")
        continue
      }
      let points = [found.p50, found.p90, found.p99, found.p999, found.max]
      table.rows.append(
        [name, Units.count(found.count)] + points.map { Units.time(microseconds: $0) })
    }
    return table.lines()
  }
}

extension JSONReport {
  /// Only with `--sleeping`.
  package struct Pushes: Codable {
    package var sleeping: Int
    package var perCall: Double
    package var byPurpose: [String: Int]
    package var late: [String: Int]
    package var answers: [String: Int]
    package var cleanUpsSent: [String: Int]
    package var cleanUpsRead: [String: Int]
    package var woken: Int
    package var wokenLate: Int
    package var neverWoken: Int
    package var expired: Int
    package var actedByPush: Int
    package var unreadable: Int
    package var toProvider: Latency?
    package var toAttached: Latency?
    enum CodingKeys: String, CodingKey {
      case sleeping, late, answers, woken, expired, unreadable
      case perCall = "per_call"
      case byPurpose = "by_purpose"
      case cleanUpsSent = "clean_ups_sent"
      case cleanUpsRead = "clean_ups_read"
      case wokenLate = "woken_late"
      case neverWoken = "never_woken"
      case actedByPush = "acted_by_push"
      case toProvider = "place_to_provider_us"
      case toAttached = "place_to_attached_us"
    }
  }
}

extension JSONReport.Pushes {
  package init(_ pushes: PushResult, calls: Int) {
    sleeping = pushes.sleeping
    perCall = (Double(pushes.total) / Double(max(calls, 1)) * 1_000).rounded() / 1_000
    byPurpose = Self.named(pushes.pushes)
    late = Self.named(pushes.late)
    answers = pushes.answers
    cleanUpsSent = pushes.cleanUpsSent
    cleanUpsRead = pushes.cleanUpsRead
    woken = pushes.woken
    wokenLate = pushes.wokenLate
    neverWoken = pushes.neverWoken
    expired = pushes.expired
    actedByPush = pushes.actedByPush
    unreadable = pushes.unreadable
    toProvider = Percentiles(pushes.toProvider).map(JSONReport.Latency.init)
    toAttached = Percentiles(pushes.toAttached).map(JSONReport.Latency.init)
  }

  private static func named(_ counts: [PushPurpose: Int]) -> [String: Int] {
    Dictionary(uniqueKeysWithValues: counts.map { ($0.key.name, $0.value) })
  }
}
