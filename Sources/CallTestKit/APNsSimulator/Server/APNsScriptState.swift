package import CallCore

/// The progress of a script: for each rule, the requests that it matched and those that it struck.
package struct APNsScriptState: Sendable {
  package private(set) var script: APNsScript
  private var seen: [Int]
  private var struck: [Int]
  /// For rules that count per connection: by connection, then by rule.
  private var seenOn: [Int: [Int]] = [:]
  private var chance: SplitMix64

  package init(_ script: APNsScript) {
    self.script = script
    seen = Array(repeating: 0, count: script.rules.count)
    struck = seen
    chance = SplitMix64(seed: script.seed)
  }

  /// The faults that strike this request, in the order of the rules.
  package mutating func faults(
    connection: Int, token: String?, now: Timestamp
  ) -> [APNsFault] {
    if script.rules.isEmpty { return [] }
    var faults: [APNsFault] = []
    for (place, rule) in script.rules.enumerated() {
      if let connections = rule.connections, !connections.contains(connection) { continue }
      if let tokens = rule.tokens, token.map(tokens.contains) != true { continue }
      if let during = rule.during, !during.contains(now) { continue }
      let number = count(place, connection, rule)
      guard number >= rule.from, (number - rule.from).isMultiple(of: rule.every) else { continue }
      if let times = rule.times, struck[place] >= times { continue }
      if rule.share < 1, draw() >= rule.share { continue }
      struck[place] += 1
      faults.append(rule.fault)
    }
    return faults
  }

  package func fault(ofConnection number: Int) -> APNsConnectionFault? {
    script.connections.first { $0.connections.contains(number) }?.fault
  }

  package mutating func connectionEnded(_ number: Int) { seenOn[number] = nil }

  private mutating func count(_ place: Int, _ connection: Int, _ rule: APNsScript.Rule) -> Int {
    guard rule.perConnection else {
      seen[place] += 1
      return seen[place]
    }
    var counts = seenOn[connection] ?? Array(repeating: 0, count: seen.count)
    counts[place] += 1
    seenOn[connection] = counts
    return counts[place]
  }

  private mutating func draw() -> Double { .random(in: 0..<1, using: &chance) }
}
