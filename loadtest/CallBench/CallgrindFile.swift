/// The counts of callgrind for one role: a file that was written with `--compress-strings=no --compress-pos=no`.
struct CallgrindFile {
  /// Instructions by whose code they are.
  private(set) var byOwner: [Owner: Int] = [:]
  /// Instructions of the codec and of the rules, with all that they call.
  private(set) var wire = 0
  private(set) var rules = 0

  var instructions: Int { byOwner.values.reduce(0, +) }

  init(text: String) {
    var owner = Owner.other
    var caller: Substring = ""
    var callee: Substring = ""
    var isCall = false
    for line in text.split(separator: "\n") {
      if let name = line.value(of: "fn=") {
        caller = name
        owner = Owner(of: String(name))
      } else if let name = line.value(of: "cfn=") {
        callee = name
      } else if line.value(of: "calls=") != nil {
        // How many they are says nothing: callgrind also counts those that it does not measure.
        isCall = true
      } else if let cost = line.cost {
        if isCall {
          called(callee, by: owner, caller, cost)
        } else {
          byOwner[owner, default: 0] += cost
        }
        isCall = false
      }
    }
  }

  private static let codecs = ["12ClusterCodecO", "11DeviceCodecO"]
  private static let machine = "$s8CallCore12ShardMachineV"

  /// - Parameter cost: of the calls, with all that they called.
  private mutating func called(
    _ callee: Substring, by owner: Owner, _ caller: Substring, _ cost: Int
  ) {
    if owner != .wire, Self.codecs.contains(where: callee.contains),
      Owner(of: String(callee)) == .wire
    {
      wire += cost
    }
    if owner != .core, callee.hasPrefix(Self.machine), Owner(of: String(callee)) == .core {
      rules += cost
    }
  }
}

extension Substring {
  fileprivate func value(of key: String) -> Substring? {
    hasPrefix(key) ? dropFirst(key.count) : nil
  }

  /// The instructions of a line such as `17 4211`: a line of the source, and its instructions.
  fileprivate var cost: Int? {
    guard let first, first.isNumber, let space = firstIndex(of: " ") else { return nil }
    return Int(self[index(after: space)...])
  }
}
