import ArgumentParser

package enum WireProtocol: String, CaseIterable, ExpressibleByArgument, Sendable {
  case pb, json
}

package struct Share: Sendable, Equatable, CustomStringConvertible {
  /// 0 to 1.
  package var value: Double
  package init(value: Double) { self.value = value }

  /// "40%" or "0.4".
  package static func parse(_ text: String) throws -> Share {
    let isPercent = text.hasSuffix("%")
    if let number = Double(isPercent ? text.dropLast() : text[...]), number.isFinite {
      let value = isPercent ? number / 100 : number
      if (0...1).contains(value) { return Share(value: value) }
    }
    throw ValidationError("\"\(text)\" is not a share; write it like 40% or 0.4")
  }

  package var description: String { "\(Units.trimmed(value * 100, 2))%" }
}

package struct RunDuration: Sendable, Equatable {
  package var seconds: Double
  package init(seconds: Double) { self.seconds = seconds }

  /// "30s", "2m", "1h", "250ms", or a bare number of seconds.
  package static func parse(_ text: String) throws -> RunDuration {
    let units: [(suffix: String, seconds: Double)] = [
      ("ms", 0.001), ("s", 1), ("m", 60), ("h", 3_600), ("", 1),
    ]
    for unit in units where text.hasSuffix(unit.suffix) {
      guard let number = Double(text.dropLast(unit.suffix.count)), number.isFinite, number > 0
      else { continue }
      return RunDuration(seconds: number * unit.seconds)
    }
    throw ValidationError("\"\(text)\" is not a length of time; write it like 30s, 2m or 250ms")
  }
}

extension RunDuration: CustomStringConvertible {
  package var description: String {
    seconds < 1 ? "\(Units.trimmed(seconds * 1_000, 3))ms" : "\(Units.trimmed(seconds, 3))s"
  }
}
