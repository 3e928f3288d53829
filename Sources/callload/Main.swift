internal import CallBus
internal import CallLoadKit
internal import NATSBus

/// `CallLoadKit` is the program. It is a module of its own, so that tests link it without this target's static libraries.
@main struct Main {
  static func main() async {
    await LoadProgram.main { url, cluster, shards in
      let options = NATSOptions(subjects: Subjects(cluster: cluster, shardCount: 1))
      let bus = try await NATSBus.connect(url: url, name: "callload", options: options)
      var journal = JournalOptions()
      journal.shardCount = shards
      return try await bus.openJournal(journal)
    }
  }
}
