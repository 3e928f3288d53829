internal import CallCore
internal import CallSimulation
import CallWire
internal import Glibc

struct SimSummary {
  var intensity: SimIntensity
  var seeds = 0
  var steps = 0
  var simulatedSeconds = 0
  var failures: [SimFailure] = []
  var counts: [String: Int] = [:]
  var elapsed: Duration = .zero
  /// The number of seeds that had to run; nil if something else ends the run.
  var asked: Int?
  /// Whether the seeds were chosen to meet all races; as many as `SimRaces.seeds` have to in any case.
  var isChosen = false
  /// Processes that did not start or died.
  var broken = 0
  /// The seeds at which they died.
  var brokenAt: [UInt64] = []

  /// The part that the run lacks, as a sentence; nil if it is complete.
  var shortfall: String? {
    let all = asked.map { "\($0)" } ?? "its"
    let ran = "\(seeds) of \(all) seeds ran"
    if broken == 0 { return seeds < asked ?? 0 ? ran : nil }
    let places = brokenAt.sorted().map { "\($0)" }.joined(separator: ", ")
    let who = broken == 1 ? "1 process" : "\(broken) processes"
    let place = places.isEmpty ? "" : ", at seed \(places)"
    return "\(who) ended in disorder\(place); \(ran)"
  }

  /// The races that had to be met, and were not.
  var neverMet: [String] {
    isChosen || seeds >= SimRaces.seeds ? SimRaces.missing(in: counts) : []
  }

  init(intensity: SimIntensity) { self.intensity = intensity }

  mutating func add(_ result: SimResult) {
    seeds += 1
    steps += result.steps
    simulatedSeconds += Int(result.simulated.microseconds / 1_000_000)
    counts.merge(result.counts) { $0 + $1 }
    if let failure = result.failure { failures.append(failure) }
  }

  // MARK: Between processes

  static func write(_ result: SimResult, to output: Int32) {
    var bytes = Array(result.line.utf8) + [10]
    while !bytes.isEmpty {
      let count = Glibc.write(output, bytes, bytes.count)
      guard count > 0 else { return }
      bytes.removeFirst(count)
    }
  }

  /// - Returns: the number of results from each.
  mutating func read(from inputs: [Int32]) -> [Int] {
    var lines = [[UInt8]](repeating: [], count: inputs.count)
    var results = [Int](repeating: 0, count: inputs.count)
    var open = inputs.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
    var buffer = [UInt8](repeating: 0, count: 65_536)
    // From whichever has output: a process waits while its pipe is full.
    while open.contains(where: { $0.fd >= 0 }), poll(&open, nfds_t(open.count), -1) > 0 {
      for index in open.indices where open[index].fd >= 0 && open[index].revents != 0 {
        let count = Glibc.read(open[index].fd, &buffer, buffer.count)
        if count <= 0 {
          open[index].fd = -1
        } else {
          read(buffer[..<count], behind: &lines[index], results: &results[index])
        }
      }
    }
    return results
  }

  private mutating func read(
    _ bytes: ArraySlice<UInt8>, behind line: inout [UInt8], results: inout Int
  ) {
    for byte in bytes {
      if byte != 10 {
        line.append(byte)
      } else {
        if let result = SimResult(line: String(decoding: line, as: UTF8.self)) {
          add(result)
          results += 1
        }
        line.removeAll(keepingCapacity: true)
      }
    }
  }

  // MARK: For people

  func text(again: (SimFailure) -> String) -> String {
    var lines: [String] = []
    for failure in failures.sorted(by: { $0.seed < $1.seed }).prefix(20) {
      let milliseconds = (failure.time - SimWorld.beginning).microseconds / 1000
      lines.append("seed \(failure.seed) at \(milliseconds) ms: \(failure.reason)")
      lines.append("    \(again(failure))")
    }
    if failures.count > 20 { lines.append("… and \(failures.count - 20) more") }
    if seeds > 1 { lines += table }
    let missing = neverMet
    if !missing.isEmpty { lines.append("never met: " + missing.joined(separator: ", ")) }
    if let shortfall { lines.append(shortfall) }
    let seconds = Double(elapsed.components.seconds) + Double(elapsed.components.attoseconds) / 1e18
    lines.append(
      "\(seeds) seeds (\(intensity.rawValue)), \(failures.count) failed; "
        + "\(simulatedSeconds) s simulated in \(Int(seconds.rounded())) s, \(steps) steps")
    return lines.joined(separator: "\n")
  }

  /// How often each event occurred, with a line for each kind.
  private var table: [String] {
    var kinds: [String: [(String, Int)]] = [:]
    for (name, count) in counts.sorted(by: { $0.key < $1.key }) {
      let parts = name.split(separator: ".", maxSplits: 1).map(String.init)
      kinds[parts.count == 2 ? parts[0] : "other", default: []].append((parts.last ?? name, count))
    }
    return kinds.sorted { $0.key < $1.key }.map { kind, entries in
      "\(kind): " + entries.map { "\($0.0) \($0.1)" }.joined(separator: " · ")
    }
  }

  var json: String {
    let quoted = JSONWriter.quoted
    let failures = failures.map {
      "{\"seed\":\($0.seed),\"reason\":\(quoted($0.reason)),"
        + "\"call\":\($0.call.map { quoted($0.description) } ?? "null")}"
    }
    let counts = counts.sorted { $0.key < $1.key }.map { "\(quoted($0.key)):\($0.value)" }
    let missing = SimRaces.missing(in: self.counts).map(quoted)
    let all = asked.map { "\($0)" } ?? "null"
    let places = brokenAt.sorted().map { "\($0)" }
    let parts = [
      "\"seeds\":\(seeds)", "\"intensity\":\(quoted(intensity.rawValue))", "\"steps\":\(steps)",
      "\"asked\":\(all)", "\"broken\":\(broken)",
      "\"brokenAt\":[\(places.joined(separator: ","))]",
      "\"simulatedSeconds\":\(simulatedSeconds)",
      "\"failures\":[\(failures.joined(separator: ","))]",
      "\"racesNeverMet\":[\(missing.joined(separator: ","))]",
      "\"counts\":{\(counts.joined(separator: ","))}",
    ]
    return "{" + parts.joined(separator: ",") + "}"
  }
}
