package import CallCore

package struct PushResult: Sendable {
  package var sleeping = 0
  /// Pushes at the provider, by purpose; each attempt counts.
  package var pushes: [PushPurpose: Int] = [:]
  /// Rings after the device could know of the end, and clean-ups more than a second after it.
  package var late: [PushPurpose: Int] = [:]
  /// The provider's answers, as it names them: "200", "BadDeviceToken"…
  package var answers: [String: Int] = [:]
  /// How often the provider did not know a token that it had accepted before.
  package var goodTokensRefused = 0
  /// Intended time of place → the ring push is at the provider. Microseconds.
  package var toProvider = LatencyHistogram()
  /// Intended time of place → a device that the push woke is attached.
  package var toAttached = LatencyHistogram()
  /// Clean-ups at the provider, by the capability that the registration has for them, or "none".
  package var cleanUpsSent: [String: Int] = [:]
  /// Those of them that the device could read.
  package var cleanUpsRead: [String: Int] = [:]
  /// Rings that came when the call no longer rang: the device shows nothing.
  package var expired = 0
  package var woken = 0
  package var neverWoken = 0
  package var wokenLate = 0
  /// Declined, or busy, over HTTP with the push's capability.
  package var actedByPush = 0
  package var unreadable = 0

  package init() {}

  package var total: Int { pushes.values.reduce(0, +) }
}

struct PushRunReport {
  let pushes: PushResult
  let callsPlaced: Int

  /// Results of pushes, by their JSON names and the titles of their lines.
  private var counts: [(name: String, title: String, count: Int)] {
    [
      ("woken", "woken", pushes.woken),
      ("woken_late", "woken when the call was over", pushes.wokenLate),
      ("never_woken", "never woken", pushes.neverWoken),
      ("expired", "expired on arrival", pushes.expired),
      ("acted_by_push", "refused over HTTP, asleep", pushes.actedByPush),
      ("unreadable", "unreadable", pushes.unreadable),
      ("good_tokens_refused", "good tokens refused", pushes.goodTokensRefused),
    ]
  }

  private var times: [(name: String, title: String, found: Percentiles?)] {
    [
      ("place_to_provider_us", "push at the provider", Percentiles(pushes.toProvider)),
      ("place_to_attached_us", "woken device attached", Percentiles(pushes.toAttached)),
    ]
  }

  private var perCall: Double { Double(pushes.total) / Double(max(callsPlaced, 1)) }

  func lines(_ style: TextStyle) -> [String] {
    var table = TextTable()
    table.add("devices that sleep", Units.count(pushes.sleeping))
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
    for one in counts { table.add(one.title, Units.count(one.count)) }
    var distributions = TextTable(distributions: "place until")
    for time in times { distributions.add(time.title, time.found) }
    return ["", style.bold("Pushes") + " (as the provider had them)"] + table.lines()
      + distributions.lines()
  }

  var json: JSONObject {
    func named(_ counts: [PushPurpose: Int]) -> JSONObject {
      JSONObject(counts.map { ($0.key.name, $0.value) })
    }
    var json: JSONObject = [
      "sleeping": pushes.sleeping, "per_call": perCall.toThousandth,
      "by_purpose": named(pushes.pushes), "late": named(pushes.late), "answers": pushes.answers,
      "clean_ups_sent": pushes.cleanUpsSent, "clean_ups_read": pushes.cleanUpsRead,
    ]
    for one in counts { json[one.name] = one.count }
    for time in times { json[time.name] = time.found?.json }
    return json
  }
}
