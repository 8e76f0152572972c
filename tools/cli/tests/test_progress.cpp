#include "cli/progress.hpp"

#include <doctest/doctest.h>

using namespace opdock::cli;

TEST_CASE("the bar shows how far all shapes are and the time that is left") {
    CHECK(bar_text({50, 100, 10, 60}, 0, 1, "gelu", 0, 80) == "[##########..........]  1 of 1   50 %  10 s left  gelu");
    CHECK(bar_text({0, 100, 0, 60}, 0, 2, "gelu", 60, 80) == "[....................]  1 of 2    0 %  120 s left  gelu");
    CHECK(bar_text({1, 100, 30, 60}, 1, 2, "gelu", 9, 80) == "[###############.....]  2 of 2   75 %  30 s left  gelu");
    CHECK(bar_text({0, 100, 0, 600}, 0, 1, "gelu", 9, 80) ==
          "[....................]  1 of 1    0 %  10 min left  gelu");
    CHECK(bar_text({1, 2, 1, 60}, 0, 1, "gelu", 0, 40) == "[####....]  1 of 1   50 %  1 s left  gel");
    CHECK(bar_text({9, 2, 70, 60}, 0, 1, "gelu", 0, 80) == "[####################]  1 of 1  100 %  0 s left  gelu");
}

TEST_CASE("elsewhere than on a terminal each shape has a line when it ends, and one before when it takes long") {
    std::string text;
    Progress progress(2, 0, [&](const std::string &piece) { text += piece; });
    progress.begin("a");
    progress.step({0, 10, 0, 1});
    progress.step({1, 10, 1, 1});
    progress.step({2, 10, 3, 1});
    progress.step({3, 10, 4, 1});
    progress.end("tuned");
    progress.begin("b");
    progress.step({0, 10, 1, 1});
    progress.end("failed: no");
    CHECK(text == "1 of 2: a\n1 of 2: a: tuned\n2 of 2: b: failed: no\n");
}

TEST_CASE("that it is stopping is said once") {
    std::string text;
    Progress progress(1, 60, [&](const std::string &piece) { text += piece; });
    progress.begin("a");
    progress.stopping("stopping");
    progress.stopping("stopping");
    CHECK(text == "\r\x1b[Kstopping\n");
}

TEST_CASE("the bar is drawn at most ten times a second and taken away in the end") {
    std::string text;
    Progress progress(1, 60, [&](const std::string &piece) { text += piece; });
    progress.begin("a");
    progress.step({0, 10, 0, 1});
    const std::string once = text;
    progress.step({1, 10, 0.05, 1});
    CHECK(text == once);
    progress.step({2, 10, 0.15, 1});
    CHECK(text.size() > once.size());
    progress.end("tuned");
    CHECK(text.ends_with("\r\x1b[K"));
}
