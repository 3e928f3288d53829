/// The owner of a function's code, as the function's name tells.
enum Owner: String, CaseIterable {
  case edge = "CallEdge"
  case coordinator = "CallCoordinator"
  case core = "CallCore"
  case wire = "CallWire"
  case other = "other modules of ours"
  case nio = "NIO"
  case protobuf = "protobuf-c"
  case copies = "copies of our values"
  case runtime = "Swift's runtime and library"
  case memory = "malloc, memcpy"
  case twins = "the bench's own"

  init(of function: String) {
    guard let module = Self.module(of: function) else {
      self =
        if function.hasPrefix("protobuf_c") || function.hasPrefix("callmesh__")
          || function.hasPrefix("0x")
        {
          .protobuf
        } else if Self.memoryNames.contains(where: function.contains) {
          .memory
        } else {
          .runtime
        }
      return
    }
    switch module {
    case "CallSimulation", "callbench": self = .twins
    case _ where module.hasPrefix("NIO"): self = .nio
    case _ where module.hasPrefix("Call") && Self.copies(function): self = .copies
    default: self = Owner(rawValue: String(module)) ?? .other
    }
  }

  private static let memoryNames = [
    "malloc", "free", "realloc", "calloc", "memalign", "mem", "str",
  ]

  /// The first module of a mangled name: `$s8CallEdge…`, of an extension `$sSS8CallCoreE…`. nil: the standard
  /// library's, or no Swift.
  private static func module(of function: String) -> Substring? {
    guard function.hasPrefix("$s") else { return nil }
    var rest = function.dropFirst(2)
    if let first = rest.first, "Ssxq".contains(first) { rest = rest.drop { !$0.isNumber } }
    let digits = rest.prefix { $0.isNumber }
    guard let length = Int(digits) else { return nil }
    let module = rest.dropFirst(digits.count).prefix(length)
    return module.hasPrefix("Call") || module.hasPrefix("NIO") || module == "callbench"
      ? module : nil
  }

  /// Value witnesses (`…wcp`) and outlined copies and destructions (`…WOe`).
  private static func copies(_ function: String) -> Bool {
    let name = function.prefix { $0 != "'" }
    return name.dropLast(2).last == "w" && name.suffix(2).allSatisfy(\.isLowercase)
      || name.dropLast().hasSuffix("WO")
  }
}
