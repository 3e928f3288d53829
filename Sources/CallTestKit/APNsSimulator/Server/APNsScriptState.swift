package import CallCore

/// Where a script stands: how many requests each rule saw, and how often it struck.
package struct APNsScriptState: Sendable {
  package private(set) var script: APNsScript
  private var seen: [Int]
  private var struck: [Int]
  /// Of rules that count per connection: by connection, then by rule.
  private var seenOn: [Int: [Int]] = [:]
  private var chance: UInt64

  package init(_ script: APNsScript) {
    self.script = script
    seen = Array(repeating: 0, count: script.rules.count)
    struck = seen
    chance = script.seed
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

  /// In 0..<1 (SplitMix64).
  private mutating func draw() -> Double {
    chance &+= 0x9E37_79B9_7F4A_7C15
    var bits = chance
    bits = (bits ^ (bits >> 30)) &* 0xBF58_476D_1CE4_E5B9
    bits = (bits ^ (bits >> 27)) &* 0x94D0_49BB_1331_11EB
    return Double((bits ^ (bits >> 31)) >> 11) / Double(1 << 53)
  }
}
