import CallCore

struct PushReport {
  let pushes: PushResult
  let callsPlaced: Int

  /// What became of pushes, by JSON names and the titles of their lines.
  private var counts: [(name: String, title: String, count: Int)] {
    [
      ("woken", "woken", pushes.woken),
      ("woken_late", "woken when the call was over", pushes.wokenLate),
      ("never_woken", "never woken", pushes.neverWoken),
      ("expired", "expired on arrival", pushes.expired),
      ("acted_by_push", "refused over HTTP, asleep", pushes.actedByPush),
      ("unreadable", "unreadable", pushes.unreadable),
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
